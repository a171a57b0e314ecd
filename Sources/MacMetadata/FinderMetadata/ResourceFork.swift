/// The resource fork of a file: typed resources, and a map of them.
///
/// Source: "Inside Macintosh: More Macintosh Toolbox", "Resource File Format". Everything is big-endian.
struct ResourceFork {
  private let bytes: [UInt8]
  private let data: Int
  private let types: Int

  /// Nil when the header or the map is malformed.
  init?(_ bytes: [UInt8]) {
    guard bytes.count <= ParserLimits.inputBytes,
      let data = bytes.bigEndian(UInt32.self, at: 0).map(Int.init),
      let map = bytes.bigEndian(UInt32.self, at: 4).map(Int.init),
      let types = bytes.bigEndian(UInt16.self, at: map + 24).map(Int.init)
    else { return nil }
    self.bytes = bytes
    self.data = data
    self.types = map + types
  }

  /// The position of the first resource of a type in the fork; nil when there is none.
  func firstResource(of type: String) -> Range<Int>? {
    // Counts are stored less one: 0xFFFF is none.
    guard let count = bytes.bigEndian(UInt16.self, at: types), count != 0xFFFF else { return nil }
    for index in 0...Int(count) {
      let at = types + 2 + 8 * index
      guard let list = bytes.bigEndian(UInt16.self, at: at + 6) else { return nil }
      guard bytes.hasBytes(type.utf8, at: at) else { continue }
      // The three low bytes are the position of the data, which begins with its length.
      guard let word = bytes.bigEndian(UInt32.self, at: types + Int(list) + 4) else { return nil }
      let start = data + Int(word & 0xFF_FFFF)
      guard let length = bytes.bigEndian(UInt32.self, at: start).map(Int.init),
        length <= bytes.count - start - 4
      else { return nil }
      return start + 4..<start + 4 + length
    }
    return nil
  }
}
