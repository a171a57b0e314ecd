import DisplayNames

/// What a directory is to the rules that depend on where it lies.
struct Site: Sendable {
  var place: Place
  /// The user's own rules about what lies in it.
  var rules: DirectoryRules
}
