/// Where a sparse file has data, in the form of GNU tar's "sparse 1.0": a list of numbers in front of the data.
///
/// The source is the GNU tar manual, "Storing Sparse Files", PAX format version 1.0: in decimal, one per line, the
/// number of segments, then the offset and the length of each. The list is filled up with zeros to a whole number of
/// blocks, and the segments follow without gaps. GNU tar reads each segment from the start of a block, others read
/// them back to back: segments begin and end at multiples of 512, so that both find the same, except at the file's end.
struct SparseMap: Equatable, Sendable {
  struct Segment: Equatable, Sendable {
    /// In the file.
    let offset: Int64
    let length: Int64
    /// In the stored data, after the list.
    let stored: Int64
  }

  private(set) var segments: [Segment] = []
  /// Bytes of data that are stored, without the list.
  private(set) var dataLength: Int64 = 0
  /// The list, filled up to whole blocks.
  private(set) var text: [UInt8] = []

  /// Holes smaller than this are stored as zeros. It grows with the file so that no file has more than 65 536 holes.
  static func smallestHole(size: Int64) -> Int64 { max(64 << 10, size >> 16) }

  /// Segments a map may have, whoever wrote it.
  static let mostSegments = 65_538

  /// The map of a file of `size` bytes with data in `ranges` (ascending, apart), or nil when nothing is left out.
  init?(ranges: [Range<Int64>], size: Int64) {
    for range in ranges {
      let start = range.lowerBound & ~511
      let (padded, overflow) = range.upperBound.addingReportingOverflow(511)
      append(start, (overflow ? size : min(padded & ~511, size)) - start)
    }
    guard dataLength < size else { return nil }
    // A file that ends with a hole is told its length by an empty segment there, as GNU tar does.
    if segments.last.map({ $0.offset + $0.length }) != size { append(size, 0) }
    text = Self.text(segments)
  }

  /// The map that a stored list describes, or nil when it is damaged or not as `init(ranges:size:)` makes it.
  ///
  /// - Parameter data: the stored data's beginning; more than the list is ignored.
  init?(parsing data: [UInt8], size: Int64) {
    var position = 0
    func number(_ position: inout Int) -> Int64? {
      guard let end = data[position...].prefix(20).firstIndex(of: 0x0a) else { return nil }
      defer { position = end + 1 }
      return decimal(data[position..<end])
    }
    guard let count = number(&position), count >= 1, count <= Self.mostSegments else { return nil }
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
  func segment(atStored position: Int64) -> Int {
    var low = 0
    var high = segments.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if segments[middle].stored <= position { low = middle } else { high = middle }
    }
    return low
  }
}

/// What is missing to a whole number of 512-byte blocks.
func padding<Number: FixedWidthInteger>(_ length: Number) -> Number { (0 &- length) & 511 }

/// A non-negative decimal number without sign or space, or nil.
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
