/// A `.strings` file: keys and their localized values.
///
/// Source: "Resource Programming Guide", String Resources; and the behaviour of CoreFoundation's parser.
public enum StringTable {
  /// The table; empty for an empty or comment-only file; nil when the bytes are not a table.
  ///
  /// Accepts binary and XML property lists and text in UTF-8, UTF-16 with or without byte order mark, Mac Roman and Latin-1.
  /// `key;` has the key as its value. Of equal keys the last takes effect. Values are returned as written: they may contain `/`,
  /// NUL or control characters. Values that are not strings are left out.
  public static func parse(_ bytes: [UInt8]) -> [String: String]? {
    if bytes.isEmpty { return [:] }
    guard case .dictionary(let members)? = PropertyListValue.parse(bytes) else { return nil }
    return members.compactMapValues(\.text)
  }
}
