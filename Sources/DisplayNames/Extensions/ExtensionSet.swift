/// A set of filename extensions, compared without regard to the case of ASCII letters.
///
/// A look-up does not allocate: every listing performs one for each name.
public struct ExtensionSet: Sendable, Equatable {
  private var members: Set<FoldedExtension>

  public init() { members = [] }

  /// The extensions are given without a period. Strings that cannot be an extension (empty, longer than 32 bytes, with a period,
  /// a slash or a space) are ignored.
  public init(_ extensions: some Sequence<String>) {
    members = Set(extensions.lazy.compactMap(Self.folded))
  }

  /// Extensions separated by blanks and line ends, the form of the built-in tables.
  init(words: String) {
    self.init(words.split(whereSeparator: \.isWhitespace).map(String.init))
  }

  public var count: Int { members.count }

  /// Whether the bytes of `name` from `start` on are one of the extensions. `start` is the index after a period.
  public func contains(_ name: Span<UInt8>, from start: Int) -> Bool {
    guard let key = FoldedExtension(name, from: start) else { return false }
    return members.contains(key)
  }

  public func contains(_ ext: String) -> Bool {
    guard let key = FoldedExtension(ext) else { return false }
    return members.contains(key)
  }

  /// Whether `name` ends in one of the extensions.
  public func containsExtension(of name: Span<UInt8>) -> Bool {
    guard let stem = FileExtension.stemLength(of: name) else { return false }
    return contains(name, from: stem + 1)
  }

  /// The set with more extensions: those of the machine's MIME database or of the configuration.
  public func inserting(_ extensions: some Sequence<String>) -> ExtensionSet {
    union(ExtensionSet(extensions))
  }

  /// The set without some extensions, for a configuration that shows them.
  public func removing(_ extensions: some Sequence<String>) -> ExtensionSet {
    subtracting(ExtensionSet(extensions))
  }

  public func subtracting(_ other: ExtensionSet) -> ExtensionSet {
    var result = self
    result.members.subtract(other.members)
    return result
  }

  public func union(_ other: ExtensionSet) -> ExtensionSet {
    var result = self
    result.members.formUnion(other.members)
    return result
  }

  private static func folded(_ ext: String) -> FoldedExtension? {
    guard !ext.utf8.contains(where: { $0 == 0x2e || $0 == 0x2f || $0 == 0x20 }) else { return nil }
    return FoldedExtension(ext)
  }
}
