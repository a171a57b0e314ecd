/// Limits that every parser of this module enforces, because its input is untrusted.
public enum ParserLimits {
  /// The maximum size of a parser's input; longer input is treated as absent. Real tables, property lists and catalogs of
  /// directory names are far smaller.
  public static let inputBytes = 1 << 20

  /// The maximum size of a picture, and of a file that holds pictures. Icons with a PNG of 1024 pixels have 1 to 3 MiB.
  public static let pictureBytes = 16 << 20

  /// The maximum nesting of a property list. Without a limit, the input could control the depth of the stack.
  static let nesting = 64

  /// The maximum sum of the depths of all values of a property list. For a value that it does not find at once, the decoder makes
  /// up to five errors, each with the path to the value: 20 000 numbers at depth 60, 40 KB, took 5 s. A list with 10 000 strings in
  /// two levels, more than real ones have, comes to 20 000.
  static let depthSum = 1 << 16

  /// The maximum size to which a binary property list may unfold. Its objects can be shared, so a few hundred bytes can describe
  /// a tree of any size.
  static let unfoldedBytes = 4 << 20
}
