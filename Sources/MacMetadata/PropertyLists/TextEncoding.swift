/// Detects the encoding of a text of unknown origin: `.strings` files from thirty years use several.
enum TextEncoding {
  /// The text, without its byte order mark; nil when no encoding fits.
  static func text(of bytes: [UInt8]) -> String? {
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
      return String(validating: bytes.dropFirst(3), as: UTF8.self)
    }
    if bytes.starts(with: [0xFF, 0xFE]) { return utf16(bytes.dropFirst(2), bigEndian: false) }
    if bytes.starts(with: [0xFE, 0xFF]) { return utf16(bytes.dropFirst(2), bigEndian: true) }
    // UTF-16 without a mark: such a text begins with an ASCII quote, slash, bracket or letter, so half of its first unit is NUL.
    if bytes.count >= 2, bytes.count.isMultiple(of: 2), (bytes[0] == 0) != (bytes[1] == 0) {
      return utf16(bytes[...], bigEndian: bytes[0] == 0)
    }
    return String(validating: bytes, as: UTF8.self) ?? singleByte(bytes)
  }

  private static func utf16(_ bytes: ArraySlice<UInt8>, bigEndian: Bool) -> String? {
    guard bytes.count.isMultiple(of: 2) else { return nil }
    let units = stride(from: bytes.startIndex, to: bytes.endIndex, by: 2).map { at in
      let (first, second) = (UInt16(bytes[at]), UInt16(bytes[at + 1]))
      return bigEndian ? first << 8 | second : second << 8 | first
    }
    return String(validating: units, as: UTF16.self)
  }

  /// Mac Roman or Latin-1. The bytes 0x80-0x9F are accented letters in Mac Roman and control characters in Latin-1.
  private static func singleByte(_ bytes: [UInt8]) -> String {
    if bytes.contains(where: { (0x80...0x9F).contains($0) }) { return macRoman(bytes) }
    return text(of: bytes) { Unicode.Scalar($0) }
  }

  static func macRoman(_ bytes: some Sequence<UInt8>) -> String {
    text(of: bytes) { $0 < 0x80 ? Unicode.Scalar($0) : macRomanScalars[Int($0) - 0x80] }
  }

  private static func text(of bytes: some Sequence<UInt8>, _ scalar: (UInt8) -> Unicode.Scalar) -> String {
    String(String.UnicodeScalarView(bytes.map(scalar)))
  }

  /// The characters of 0x80-0xFF, from Apple's "ROMAN.TXT". Foundation's own conversion (Swift 6.3, Linux) returns other
  /// characters: 0x9F becomes `È` instead of `ü`.
  private static let macRomanScalars = Array(
    ("ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü"
      + "†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø"
      + "¿¡¬√ƒ≈∆«»…\u{A0}ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ"
      + "‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\u{F8FF}ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ").unicodeScalars)
}
