import DisplayNames

/// What a directory is to the rules that depend on where it lies.
struct Site: Sendable {
  var place: Place
  /// The user's own rules about what lies in it.
  var rules: DirectoryRules
  /// The home that it lies in, or is.
  var home: Home?

  struct Home: Sendable {
    let handle: DirectoryHandle
    /// The way from the home to the directory.
    var path: [Name] = []
  }
}
