/// Turns text from a string table into a name that is safe to list.
///
/// The tables are on the volume, so their text is untrusted.
public enum LocalizedName {
  /// The name to show for the entry `realName`, or nil when `value` must not be shown.
  ///
  /// The name is in normalization form C. A run of `/` becomes one `:`, which is how a slash in a displayed name is stored (the
  /// Finder also shows only one). Soft hyphens, which mark possible line breaks and occur in Apple's own tables, are removed. The
  /// no-break spaces in those tables are part of the name and stay.
  ///
  /// Rejected are blank names, `.`, `..`, names longer than 255 bytes, controls, line separators, and all invisible characters
  /// that reorder or disguise text, except the joiners needed in Persian and Indic spelling. Also rejected are names that begin
  /// with a period when the real name does not, because they would be hidden.
  public static func sanitize(_ value: String, realName: Name) -> Name? {
    guard value.utf8.count <= maximumInput else { return nil }
    var scalars = String.UnicodeScalarView()
    var afterSlash = false
    var isBlank = true
    for scalar in value.normalizedC.unicodeScalars {
      if scalar == "\u{AD}" { continue }
      guard isAllowed(scalar) else { return nil }
      if scalar == "/" {
        if !afterSlash { scalars.append(":") }
        afterSlash = true
        isBlank = false
      } else {
        scalars.append(scalar)
        afterSlash = false
        if !isInvisible(scalar) { isBlank = false }
      }
    }
    let name = Name(String(scalars))
    guard !isBlank, name.bytes.count <= maximumLength else { return nil }
    if name.bytes.first == period {
      guard realName.bytes.first == period, name != ".", name != ".." else { return nil }
    }
    return name
  }

  private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: false
    case .format: isJoiner(scalar)
    default: true
    }
  }

  private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
    let properties = scalar.properties
    return properties.isWhitespace || properties.isDefaultIgnorableCodePoint
  }

  /// Zero-width non-joiner and joiner.
  private static func isJoiner(_ scalar: Unicode.Scalar) -> Bool {
    scalar == "\u{200C}" || scalar == "\u{200D}"
  }

  private static let period: UInt8 = 0x2e
  /// The maximum length of a directory entry's name on Linux, in bytes.
  private static let maximumLength = 255
  /// Longer input cannot become a short enough name by normalization. Bounds the work.
  private static let maximumInput = 1024
}
