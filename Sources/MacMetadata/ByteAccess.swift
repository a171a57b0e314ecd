/// Bounds-checked reads of fixed-width integers; nil beyond the end of the bytes.
extension [UInt8] {
  func bigEndian<T: FixedWidthInteger & UnsignedInteger>(_: T.Type, at offset: Int) -> T? {
    let width = T.bitWidth / 8
    guard offset >= 0, offset <= count - width else { return nil }
    var value: T = 0
    for byte in self[offset..<offset + width] { value = value << 8 | T(byte) }
    return value
  }

  func littleEndian<T: FixedWidthInteger & UnsignedInteger>(_ type: T.Type, at offset: Int) -> T? {
    bigEndian(type, at: offset)?.byteSwapped
  }

  func hasBytes(_ expected: some Sequence<UInt8>, at offset: Int) -> Bool {
    guard offset >= 0, offset <= count else { return false }
    return self[offset...].starts(with: expected)
  }

  /// The first index of `pattern` at or after `offset`.
  func firstIndex(of pattern: [UInt8], from offset: Int) -> Int? {
    guard !pattern.isEmpty, offset >= 0, count - pattern.count >= offset else { return nil }
    return (offset...count - pattern.count).first { hasBytes(pattern, at: $0) }
  }
}
