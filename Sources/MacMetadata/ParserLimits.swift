/// Bounds that every parser of this module keeps, because what it reads was written by strangers.
public enum ParserLimits {
  /// The most bytes a parser looks at; anything longer is "no information". Real tables, property lists and
  /// catalogs of directory names are far smaller.
  public static let inputBytes = 1 << 20

  /// The deepest nesting of a property list. Deeper ones would let a file choose how much stack is used.
  static let nesting = 64

  /// The most work a binary property list may unfold to. Its objects can be shared, so a few hundred bytes can
  /// describe a tree of any size.
  static let unfoldedBytes = 4 << 20
}
