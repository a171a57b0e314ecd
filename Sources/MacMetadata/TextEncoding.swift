/// Finds the encoding of a text of unknown origin, as `.strings` files of thirty years need it.
enum TextEncoding {
  /// The text, without its byte order mark; nil when no encoding fits.
  static func text(of bytes: [UInt8]) -> String? {
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
      return String(validating: bytes.dropFirst(3), as: UTF8.self)
    }
    if bytes.starts(with: [0xFF, 0xFE]) { return utf16(bytes.dropFirst(2), bigEndian: false) }
    if bytes.starts(with: [0xFE, 0xFF]) { return utf16(bytes.dropFirst(2), bigEndian: true) }
    // Such a text begins with an ASCII quote, slash, bracket or letter: half of its first unit is a NUL.
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

  /// 0x80-0x9F are the accented letters of Mac Roman and control characters in Latin-1.
  private static func singleByte(_ bytes: [UInt8]) -> String {
    let looksMac = bytes.contains { (0x80...0x9F).contains($0) }
    var text = ""
    for byte in bytes {
      text.unicodeScalars.append(looksMac && byte >= 0x80 ? macRoman[Int(byte) - 0x80] : Unicode.Scalar(byte))
    }
    return text
  }

  /// What 0x80-0xFF stand for, from Apple's "ROMAN.TXT". Foundation's own conversion (Swift 6.3, Linux) answers
  /// other characters: 0x9F becomes `È` instead of `ü`.
  private static let macRoman = Array(
    ("ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü"
      + "†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø"
      + "¿¡¬√ƒ≈∆«»…\u{A0}ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ"
      + "‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\u{F8FF}ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ").unicodeScalars)
}
