import DisplayNames

/// The properties of a directory that depend on its place in the tree.
struct Site: Sendable {
  var role: DirectoryRole
  /// The user's own rules for the entries of the directory.
  var rules: DirectoryRules
  /// The real names that lead from SOURCE to the directory, where they matter. (`ViewOptions.dependOnPath`)
  var path: [Name] = []
  /// The home directory that the directory is, or lies in.
  var home: Home?

  struct Home: Sendable {
    let handle: DirectoryHandle
    /// The path from the home to the directory.
    var path: [Name] = []
  }
}
