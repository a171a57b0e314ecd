/// The header of an AppleDouble file: the sidecar `._x` of `x`, with metadata that a plain file system cannot store.
///
/// Source: "AppleSingle/AppleDouble Formats for Foreign Files Developer's Note", and RFC 1740; for extended attributes
/// "vfs_xattr.c" of the XNU kernel.
public struct AppleDouble: Hashable, Sendable {
  /// A part described by the header, and its position in the file.
  public struct Entry: Hashable, Sendable {
    public var id: UInt32
    public var range: Range<Int>
  }

  /// Ids of the parts that the view uses.
  public static let resourceForkID: UInt32 = 2
  public static let commentID: UInt32 = 4
  public static let finderInfoID: UInt32 = 9

  /// The parts that lie within the file, in the order of the header.
  public var entries: [Entry]

  /// An extended attribute of macOS, and the position of its value in the file.
  public struct Attribute: Hashable, Sendable {
    public var name: [UInt8]
    public var range: Range<Int>
  }

  /// The extended attributes that follow the Finder info, as far as their header is in the beginning of the file, and their
  /// values within the file.
  public var attributes: [Attribute] = []

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
    // The entry of the Finder info covers them.
    if let info = entries.first(where: { $0.id == Self.finderInfoID }), info.range.count > FinderInfo.size + 2
    {
      attributes = Self.attributes(of: bytes, at: info.range.lowerBound + FinderInfo.size + 2, size: size)
    }
  }

  /// After the Finder info come two bytes of padding and the header: a magic number, 28 bytes of positions and reserve, flags
  /// of two bytes, and the number of attributes. For each there are the position and length of the value, flags, the length of the
  /// name, and the name with a NUL, padded to four bytes.
  private static func attributes(of bytes: [UInt8], at header: Int, size: Int) -> [Attribute] {
    guard bytes.hasBytes("ATTR".utf8, at: header),
      let count = bytes.bigEndian(UInt16.self, at: header + 34)
    else { return [] }
    var found: [Attribute] = []
    var at = header + 36
    for _ in 0..<count {
      guard let offset = bytes.bigEndian(UInt32.self, at: at),
        let length = bytes.bigEndian(UInt32.self, at: at + 4),
        let nameLength = bytes.bigEndian(UInt8.self, at: at + 10).map(Int.init),
        at + 11 + nameLength <= bytes.count
      else { break }
      let (start, valueLength) = (Int(offset), Int(length))
      if start <= size, valueLength <= size - start {
        found.append(
          Attribute(
            name: Array(bytes[at + 11..<at + 11 + nameLength].prefix { $0 != 0 }),
            range: start..<start + valueLength))
      }
      at += (11 + nameLength + 3) & ~3
    }
    return found
  }

  /// The range of the comment that the Finder of Mac OS 9, or netatalk for it, stored; nil when there is none.
  public var comment: Range<Int>? {
    entries.first { $0.id == Self.commentID && !$0.range.isEmpty }?.range
  }

  /// A comment's bytes as `user.xdg.comment`. They are UTF-8 by clients of today, and Mac Roman by those of Mac OS 9.
  public static func comment(_ bytes: [UInt8]) -> [UInt8] {
    let text = bytes.prefix { $0 != 0 }
    return DesktopAttribute.comment(
      String(validating: text, as: UTF8.self) ?? TextEncoding.macRoman(text))
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
