/// A pattern for directories to which the user's own profile assigns a role.
public struct RolePattern: Sendable, Hashable {
  /// Nil for SOURCE itself.
  private let pattern: PathPattern?
  public let role: DirectoryRole

  /// - Parameter text: a pattern, or `/` for SOURCE.
  public init(_ text: String, is role: DirectoryRole) throws(OptionError) {
    pattern = text == "/" ? nil : try PathPattern(text)
    self.role = role
  }

  /// Whether the pattern matches the directory at `path`, a list of names relative to SOURCE.
  public func matches(_ path: [Name]) -> Bool { pattern.map { $0.matches(path) } ?? path.isEmpty }
}
