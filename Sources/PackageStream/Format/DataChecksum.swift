import CZlib

/// An incremental CRC-32 as in ISO 3309, by zlib.
struct DataChecksum: Sendable {
  private(set) var value: UInt32 = 0

  static func of(_ bytes: [UInt8]) -> UInt32 {
    var sum = DataChecksum()
    bytes.withUnsafeBytes { sum.add($0) }
    return sum.value
  }

  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    // Without a buffer `crc32_z` returns the sum of no bytes.
    guard let start = bytes.baseAddress else { return }
    let sum = crc32_z(CUnsignedLong(value), start.assumingMemoryBound(to: UInt8.self), bytes.count)
    value = UInt32(truncatingIfNeeded: sum)
  }
}
