import BackingTree

/// CRC-32 as in ISO 3309 of bytes that come piece by piece.
struct DataChecksum: Sendable {
  private var state = UInt32.max

  var value: UInt32 { ~state }

  static func of(_ bytes: [UInt8]) -> UInt32 {
    var sum = DataChecksum()
    bytes.withUnsafeBytes { sum.add($0) }
    return sum.value
  }

  /// Eight bytes at a time ("slicing by 8": Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
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

  /// What a byte does to the sum when as many others follow it as the table has before it.
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

/// The checksums of a package's files, as they become known while the stream is read.
///
/// The checksum of a file's data is in the header that follows: whoever reads in order has it by then. Whoever begins
/// with that header has the file read for it.
final class DataChecksums: Sendable {
  private struct State {
    /// The member that is being read in order, how far that has come, and the sum up to there.
    var member = -1
    var position: Int64 = 0
    var sum = DataChecksum()
    var known: [Int: UInt32] = [:]
  }

  /// What is known is only needed again by those who go back.
  private static let capacity = 1024
  private let state = Guarded(State())

  /// Takes note of data that was read of a member with `length` bytes of it.
  func read(_ member: Int, at position: Int64, _ bytes: UnsafeRawBufferPointer, of length: Int64) {
    state.withLock { state in
      if position == 0, state.known[member] == nil {
        state.member = member
        state.position = 0
        state.sum = DataChecksum()
      }
      guard state.member == member, state.position == position else { return }
      state.sum.add(bytes)
      state.position += Int64(bytes.count)
      if state.position == length { Self.know(state.sum.value, of: member, &state) }
    }
  }

  func known(_ member: Int) -> UInt32? { state.withLock { $0.known[member] } }

  func know(_ sum: UInt32, of member: Int) { state.withLock { Self.know(sum, of: member, &$0) } }

  private static func know(_ sum: UInt32, of member: Int, _ state: inout State) {
    if state.known.count >= capacity { state.known.removeAll(keepingCapacity: true) }
    state.known[member] = sum
  }
}
