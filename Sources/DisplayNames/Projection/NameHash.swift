/// Hashes of names, for tables in the memory of this process.
///
/// One folded multiplication for each eight bytes: names are short, and a directory of a million entries hashes each of them
/// several times. The seed is random, so that a client cannot choose names with colliding hashes.
package enum NameHash {
  private static let seed = UInt64.random(in: .min ... .max)

  package static func hash(of name: Span<UInt8>) -> Int {
    name.withUnsafeBytes { bytes in
      var state = fold(seed ^ UInt64(bytes.count), 0x9e37_79b9_7f4a_7c15)
      var offset = 0
      while offset + 8 <= bytes.count {
        let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        state = fold(state ^ word, 0xd6e8_feb8_6659_fd93)
        offset += 8
      }
      var last: UInt64 = 0
      if offset < bytes.count, bytes.count >= 8 {
        // Overlaps bytes hashed before, which does no harm and needs no loop.
        last = bytes.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)
        offset = bytes.count
      }
      while offset < bytes.count {
        last = last << 8 | UInt64(bytes[offset])
        offset += 1
      }
      return Int(truncatingIfNeeded: fold(state ^ last, 0xa076_1d64_78bd_642f))
    }
  }

  private static func fold(_ value: UInt64, _ factor: UInt64) -> UInt64 {
    let product = value.multipliedFullWidth(by: factor)
    return product.high ^ product.low
  }
}
