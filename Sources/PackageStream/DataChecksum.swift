import BackingTree

/// An incremental CRC-32 as in ISO 3309.
struct DataChecksum: Sendable {
  private var state = UInt32.max

  var value: UInt32 { ~state }

  static func of(_ bytes: [UInt8]) -> UInt32 {
    var sum = DataChecksum()
    bytes.withUnsafeBytes { sum.add($0) }
    return sum.value
  }

  /// Processes eight bytes at a time ("slicing by 8": Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
  /// High-Performance CRC Generation", 2008).
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    var sum = state
    Self.tables.withUnsafeBufferPointer { tables in
      var position = 0
      while position + 8 <= bytes.count {
        let low = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self)) ^ sum
        let high = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: position + 4, as: UInt32.self))
        sum = tables[Int(0x700 | low & 0xff)] ^ tables[Int(0x600 | low >> 8 & 0xff)]
        sum ^= tables[Int(0x500 | low >> 16 & 0xff)] ^ tables[Int(0x400 | low >> 24)]
        sum ^= tables[Int(0x300 | high & 0xff)] ^ tables[Int(0x200 | high >> 8 & 0xff)]
        sum ^= tables[Int(0x100 | high >> 16 & 0xff)] ^ tables[Int(high >> 24)]
        position += 8
      }
      while position < bytes.count {
        sum = tables[Int((sum ^ UInt32(bytes[position])) & 0xff)] ^ sum >> 8
        position += 1
      }
    }
    state = sum
  }

  /// Table `n` of the eight holds the CRC of each byte value followed by `n` zero bytes.
  private static let tables: [UInt32] = {
    var tables = [UInt32](repeating: 0, count: 8 * 256)
    for byte in 0..<256 {
      var sum = UInt32(byte)
      for _ in 0..<8 { sum = sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xedb8_8320 }
      tables[byte] = sum
    }
    for index in 256..<tables.count {
      let before = tables[index - 256]
      tables[index] = tables[Int(before & 0xff)] ^ before >> 8
    }
    return tables
  }()
}
