/// A compiled gettext catalog (".mo"), for translations of names ("The GNU gettext manual", The Format of GNU MO Files).
public struct MessageCatalog: Sendable {
  private let bytes: [UInt8]
  private let isBigEndian: Bool
  private let count: Int
  private let originals: Int
  private let translations: Int

  /// Opens a catalog; nil when it is malformed, of another major revision, or not in UTF-8.
  public init?(_ bytes: [UInt8]) {
    guard bytes.count <= ParserLimits.inputBytes else { return nil }
    let isBigEndian = bytes.bigEndian(UInt32.self, at: 0) == 0x9504_12DE
    guard isBigEndian || bytes.littleEndian(UInt32.self, at: 0) == 0x9504_12DE else { return nil }
    func header(_ offset: Int) -> Int? { Self.word(bytes, at: offset, bigEndian: isBigEndian) }
    guard let revision = header(4), revision >> 16 <= 1, let count = header(8), let originals = header(12),
      let translations = header(16), originals <= bytes.count, translations <= bytes.count,
      count <= (bytes.count - originals) / 8, count <= (bytes.count - translations) / 8
    else { return nil }
    self.bytes = bytes
    self.isBigEndian = isBigEndian
    self.count = count
    self.originals = originals
    self.translations = translations
    guard let head = lookUp([]), Self.isUTF8(head) else { return nil }
  }

  /// The translation of a message without plural forms; nil when there is none.
  public func translation(of message: String) -> String? {
    guard !message.isEmpty, let found = lookUp(Array(message.utf8)), !found.isEmpty else { return nil }
    return String(validating: found, as: UTF8.self)
  }

  /// Binary search: messages are sorted by their bytes.
  private func lookUp(_ message: [UInt8]) -> ArraySlice<UInt8>? {
    var (low, high) = (0, count)
    while low < high {
      let middle = low + (high - low) / 2
      guard let original = string(originals, middle) else { return nil }
      if original.elementsEqual(message) { return string(translations, middle) }
      if original.lexicographicallyPrecedes(message) { low = middle + 1 } else { high = middle }
    }
    return nil
  }

  /// A string of a table, up to the NUL that terminates it or precedes its plural forms.
  private func string(_ table: Int, _ index: Int) -> ArraySlice<UInt8>? {
    guard let length = Self.word(bytes, at: table + 8 * index, bigEndian: isBigEndian),
      let offset = Self.word(bytes, at: table + 8 * index + 4, bigEndian: isBigEndian),
      offset <= bytes.count, length <= bytes.count - offset
    else { return nil }
    return bytes[offset..<offset + length].prefix { $0 != 0 }
  }

  private static func word(_ bytes: [UInt8], at offset: Int, bigEndian: Bool) -> Int? {
    let value =
      bigEndian ? bytes.bigEndian(UInt32.self, at: offset) : bytes.littleEndian(UInt32.self, at: offset)
    return value.flatMap { Int(exactly: $0) }
  }

  /// Whether the header entry contains `charset=UTF-8`, in any case.
  private static func isUTF8(_ head: ArraySlice<UInt8>) -> Bool {
    let text = head.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
    let mark = Array("charset=".utf8)
    guard let at = text.firstIndex(of: mark, from: 0) else { return false }
    let charset = text[(at + mark.count)...].prefix { $0 > 0x20 && $0 != UInt8(ascii: ";") }
    return charset.elementsEqual("utf-8".utf8) || charset.elementsEqual("utf8".utf8)
  }
}
