/// Hashes of names, for tables in the memory of this process.
///
/// One folded multiplication for each eight bytes: names are short, and a directory of a million entries hashes each of them
/// several times. The seed is random, so that a client cannot choose names with colliding hashes.
package enum NameHash {
  private static let seed = UInt64.random(in: .min ... .max)

  package static func hash(of name: Span<UInt8>) -> Int {
    name.withUnsafeBytes { bytes in
      var state = fold(seed ^ UInt64(bytes.count), 0x9e37_79b9_7f4a_7c15)
      guard var position = bytes.baseAddress else { return Int(truncatingIfNeeded: state) }
      let end = position + bytes.count
      while end - position >= 8 {
        state = fold(state ^ position.loadUnaligned(as: UInt64.self), 0xd6e8_feb8_6659_fd93)
        position += 8
      }
      var last: UInt64 = 0
      if bytes.count >= 8 {
        // Overlaps bytes hashed before, which does no harm and needs no loop.
        if position < end { last = (end - 8).loadUnaligned(as: UInt64.self) }
      } else {
        while position < end {
          last = last << 8 | UInt64(position.load(as: UInt8.self))
          position += 1
        }
      }
      return Int(truncatingIfNeeded: fold(state ^ last, 0xa076_1d64_78bd_642f))
    }
  }

  /// The hash of a key that is hashed already, for a table of the standard library: each of its tables has a seed of its own.
  package static func mixed(_ hash: Int, seed: Int) -> Int {
    Int(truncatingIfNeeded: fold(UInt64(bitPattern: Int64(hash ^ seed)), 0x8ebc_6af0_9c88_c6e3))
  }

  private static func fold(_ value: UInt64, _ factor: UInt64) -> UInt64 {
    let product = value.multipliedFullWidth(by: factor)
    return product.high ^ product.low
  }
}
