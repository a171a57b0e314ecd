/// A pattern for directories to which the user's own profile assigns a role.
public struct PlacePattern: Sendable, Hashable {
  /// Nil for SOURCE itself.
  private let pattern: PathPattern?
  public let place: Place

  /// - Parameter text: a pattern, or `/` for SOURCE.
  public init(_ text: String, is place: Place) throws(OptionError) {
    pattern = text == "/" ? nil : try PathPattern(text)
    self.place = place
  }

  /// Whether the pattern matches the directory at `path`, a list of names relative to SOURCE.
  public func matches(_ path: [Name]) -> Bool { pattern.map { $0.matches(path) } ?? path.isEmpty }
}
