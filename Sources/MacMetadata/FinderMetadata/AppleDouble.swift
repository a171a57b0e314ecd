/// The header of an AppleDouble file: the sidecar `._x` of `x`, with metadata that a plain file system cannot store.
///
/// Source: "AppleSingle/AppleDouble Formats for Foreign Files Developer's Note", and RFC 1740.
public struct AppleDouble: Hashable, Sendable {
  /// A part described by the header, and its position in the file.
  public struct Entry: Hashable, Sendable {
    public var id: UInt32
    public var range: Range<Int>
  }

  /// Ids of the parts that the view uses.
  public static let resourceForkID: UInt32 = 2
  public static let finderInfoID: UInt32 = 9

  /// The parts that lie within the file, in the order of the header.
  public var entries: [Entry]

  /// Whether a file that begins with `bytes` is AppleDouble, version 2. An AppleSingle file is not.
  public static func isAppleDouble(_ bytes: [UInt8]) -> Bool {
    bytes.starts(with: [0x00, 0x05, 0x16, 0x07, 0x00, 0x02, 0x00, 0x00])
  }

  /// Parses the header from the file or its beginning; nil when it is not AppleDouble or truncated.
  ///
  /// - Parameter fileSize: the size of the whole file when `bytes` is only its beginning. Parts that reach beyond the end of the
  ///   file are left out.
  public init?(_ bytes: [UInt8], fileSize: Int? = nil) {
    guard bytes.count <= ParserLimits.inputBytes, Self.isAppleDouble(bytes),
      let count = bytes.bigEndian(UInt16.self, at: 24)
    else { return nil }
    let size = max(0, fileSize ?? bytes.count)
    entries = []
    for index in 0..<Int(count) {
      let at = 26 + 12 * index
      guard let id = bytes.bigEndian(UInt32.self, at: at),
        let offset = bytes.bigEndian(UInt32.self, at: at + 4),
        let length = bytes.bigEndian(UInt32.self, at: at + 8)
      else { return nil }
      guard let start = Int(exactly: offset), let length = Int(exactly: length), start <= size,
        length <= size - start
      else { continue }
      entries.append(Entry(id: id, range: start..<start + length))
    }
  }

  /// The range of the resource fork; nil when there is none or it is empty.
  public var resourceFork: Range<Int>? {
    entries.first { $0.id == Self.resourceForkID && !$0.range.isEmpty }?.range
  }

  /// The range of the 32 bytes of Finder info. macOS makes the entry longer when extended attributes follow.
  public var finderInfo: Range<Int>? {
    entries.first { $0.id == Self.finderInfoID && $0.range.count >= FinderInfo.size }
      .map { $0.range.lowerBound..<$0.range.lowerBound + FinderInfo.size }
  }
}
