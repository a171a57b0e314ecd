/// The data segments of a sparse file, in the form of GNU tar's "sparse 1.0": a list of numbers in front of the data.
///
/// The source is the GNU tar manual, "Storing Sparse Files", PAX format version 1.0: in decimal, one per line, the number of
/// segments, then the offset and the length of each. The list is padded with zeros to a whole number of blocks, and the segments
/// follow without gaps. GNU tar reads each segment from the start of a block, other programs read them back to back. Segments
/// therefore begin and end at multiples of 512, except at the file's end, so that both find the same data.
struct SparseMap: Equatable, Sendable {
  struct Segment: Equatable, Sendable {
    /// The offset in the file.
    let offset: Int64
    let length: Int64
    /// The offset in the stored data, after the list.
    let stored: Int64
  }

  private(set) var segments: [Segment] = []
  /// The number of bytes of stored data, without the list.
  private(set) var dataLength: Int64 = 0
  /// The list, padded to whole blocks.
  private(set) var text: [UInt8] = []

  /// The size in bytes below which a hole is stored as zeros. It grows with the file, so that no file has more than 65 536 holes.
  static func smallestHole(size: Int64) -> Int64 { max(64 << 10, size >> 16) }

  /// The maximum number of segments that is accepted.
  static let maximumSegments = 65_538

  /// The map of a file of `size` bytes with data in `ranges` (ascending, disjoint); nil when no hole is left out.
  init?(ranges: [Range<Int64>], size: Int64) {
    for range in ranges {
      let start = range.lowerBound & ~511
      let (padded, overflow) = range.upperBound.addingReportingOverflow(511)
      append(start, (overflow ? size : min(padded & ~511, size)) - start)
    }
    guard dataLength < size else { return nil }
    // The length of a file that ends with a hole is given by an empty segment at its end, as in GNU tar.
    if segments.last.map({ $0.offset + $0.length }) != size { append(size, 0) }
    text = Self.text(segments)
  }

  /// Parses a stored list; nil when it is malformed or not in the form of `init(ranges:size:)`.
  ///
  /// - Parameter data: the beginning of the stored data; bytes after the list are ignored.
  init?(parsing data: [UInt8], size: Int64) {
    var position = 0
    func number(_ position: inout Int) -> Int64? {
      guard let end = data[position...].prefix(20).firstIndex(of: 0x0a) else { return nil }
      defer { position = end + 1 }
      return decimal(data[position..<end])
    }
    guard let count = number(&position), count >= 1, count <= Self.maximumSegments else { return nil }
    var end: Int64 = 0
    for index in 0..<count {
      guard let offset = number(&position), let length = number(&position) else { return nil }
      let (next, overflow) = offset.addingReportingOverflow(length)
      guard !overflow, offset >= end, next <= size, offset & 511 == 0 || (offset == size && length == 0),
        length & 511 == 0 || next == size, length > 0 || (index == count - 1 && offset == size)
      else { return nil }
      append(offset, length)
      end = next
    }
    text = Self.text(segments)
    guard end == size, dataLength < size, data.starts(with: text) else { return nil }
  }

  private mutating func append(_ offset: Int64, _ length: Int64) {
    segments.append(Segment(offset: offset, length: length, stored: dataLength))
    dataLength += length
  }

  private static func text(_ segments: [Segment]) -> [UInt8] {
    var text = Array("\(segments.count)\n".utf8)
    for segment in segments { text.append(contentsOf: "\(segment.offset)\n\(segment.length)\n".utf8) }
    text.append(contentsOf: repeatElement(0, count: padding(text.count)))
    return text
  }

  /// The segment that holds the stored byte at `position`, by binary search.
  func segment(atStored position: Int64) -> Int { segments.lastIndexOfPrefix { $0.stored <= position } }
}

/// The number of bytes from `length` to the next multiple of 512.
func padding<Number: FixedWidthInteger>(_ length: Number) -> Number { (0 &- length) & 511 }

/// Parses a non-negative decimal number without sign or space; nil when it is malformed.
func decimal(_ digits: some Collection<UInt8>) -> Int64? {
  guard !digits.isEmpty, digits.count <= 19 else { return nil }
  var value: Int64 = 0
  for digit in digits {
    guard digit >= 0x30, digit <= 0x39 else { return nil }
    let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
    let (next, carry) = tens.addingReportingOverflow(Int64(digit - 0x30))
    if overflow || carry { return nil }
    value = next
  }
  return value
}
