/// Directories of a tree that a profile of the user's own gives a meaning.
public struct PlacePattern: Sendable, Hashable {
  /// Nil is SOURCE itself.
  private let pattern: PathPattern?
  public let place: Place

  /// - Parameter text: a pattern, or `/` for SOURCE.
  public init(_ text: String, is place: Place) throws(OptionError) {
    pattern = text == "/" ? nil : try PathPattern(text)
    self.place = place
  }

  /// Whether it is about the directory at `path`, names from SOURCE on.
  public func matches(_ path: [Name]) -> Bool { pattern.map { $0.matches(path) } ?? path.isEmpty }
}
