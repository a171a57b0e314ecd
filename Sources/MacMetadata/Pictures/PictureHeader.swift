/// The format and the size of a picture, from its first bytes. The picture itself is decoded elsewhere.
public struct PictureHeader: Hashable, Sendable {
  /// The formats that pictures of packages have and displayfs decodes.
  public enum Format: Hashable, Sendable { case png, jpeg, tiff, jpeg2000 }

  public var format: Format
  /// In pixels, at least 1.
  public var width: Int
  public var height: Int

  /// Pixels of the longer side.
  public var side: Int { max(width, height) }

  /// - Parameter bytes: the picture, or its beginning. A JPEG may have hundreds of kilobytes of metadata before its size.
  /// - Returns: nil for other formats, among them the PNG without `IHDR` in front that Xcode makes for iOS.
  public init?(_ bytes: [UInt8]) {
    guard
      let (format, width, height) = Self.png(bytes) ?? Self.jpeg(bytes) ?? Self.tiff(bytes)
        ?? Self.jpeg2000(bytes), width > 0, height > 0
    else { return nil }
    self.format = format
    self.width = width
    self.height = height
  }

  static let pngSignature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

  /// "Portable Network Graphics (PNG) Specification", 5.2 and 11.2.2.
  private static func png(_ bytes: [UInt8]) -> (Format, Int, Int)? {
    guard bytes.starts(with: pngSignature), bytes.hasBytes("IHDR".utf8, at: 12),
      let width = bytes.bigEndian(UInt32.self, at: 16), let height = bytes.bigEndian(UInt32.self, at: 20)
    else { return nil }
    return (.png, Int(width), Int(height))
  }

  /// ITU-T T.81, B.1.1 and B.2.2: the size is in the frame header, SOF0 to SOF15.
  private static func jpeg(_ bytes: [UInt8]) -> (Format, Int, Int)? {
    guard bytes.starts(with: [0xFF, 0xD8, 0xFF]) else { return nil }
    var at = 2
    while at + 4 <= bytes.count, bytes[at] == 0xFF {
      switch bytes[at + 1] {
      case 0xFF: at += 1
      case 0x01, 0xD0...0xD7: at += 2
      case 0xC0...0xC3, 0xC5...0xC7, 0xC9...0xCB, 0xCD...0xCF:
        guard let height = bytes.bigEndian(UInt16.self, at: at + 5),
          let width = bytes.bigEndian(UInt16.self, at: at + 7)
        else { return nil }
        return (.jpeg, Int(width), Int(height))
      case 0xD9, 0xDA: return nil
      default: at += 2 + Int(bytes.bigEndian(UInt16.self, at: at + 2) ?? 0)
      }
    }
    return nil
  }

  /// "TIFF Revision 6.0", section 2: the first image file directory.
  private static func tiff(_ bytes: [UInt8]) -> (Format, Int, Int)? {
    let isBig = bytes.starts(with: [0x4D, 0x4D, 0, 42])
    guard isBig || bytes.starts(with: [0x49, 0x49, 42, 0]) else { return nil }
    func number<T: FixedWidthInteger & UnsignedInteger>(_ type: T.Type, at offset: Int) -> Int? {
      (isBig ? bytes.bigEndian(type, at: offset) : bytes.littleEndian(type, at: offset)).map { Int($0) }
    }
    guard let directory = number(UInt32.self, at: 4), let count = number(UInt16.self, at: directory) else {
      return nil
    }
    var size: [Int: Int] = [:]
    for index in 0..<count {
      let entry = directory + 2 + 12 * index
      guard let tag = number(UInt16.self, at: entry), tag <= 257 else { break }
      guard tag >= 256, let type = number(UInt16.self, at: entry + 2) else { continue }
      size[tag] = type == 3 ? number(UInt16.self, at: entry + 8) : number(UInt32.self, at: entry + 8)
    }
    guard let width = size[256], let height = size[257] else { return nil }
    return (.tiff, width, height)
  }

  private static let jp2Signature: [UInt8] = [0, 0, 0, 12, 0x6A, 0x50, 0x20, 0x20, 0x0D, 0x0A, 0x87, 0x0A]

  /// ITU-T T.800, A.5.1 and I.5: a file of boxes, of which the image header is the first in the JP2 header, or a codestream
  /// alone, which has the size of the picture in its SIZ marker.
  private static func jpeg2000(_ bytes: [UInt8]) -> (Format, Int, Int)? {
    func number(at offset: Int) -> Int? { bytes.bigEndian(UInt32.self, at: offset).map { Int($0) } }
    if bytes.starts(with: [0xFF, 0x4F, 0xFF, 0x51]) {
      guard let right = number(at: 8), let bottom = number(at: 12), let left = number(at: 16),
        let top = number(at: 20)
      else { return nil }
      return (.jpeg2000, right - left, bottom - top)
    }
    guard bytes.starts(with: jp2Signature) else { return nil }
    var at = jp2Signature.count
    while let length = number(at: at), !bytes.hasBytes("jp2h".utf8, at: at + 4) {
      // Only what comes behind the size may have a length of 64 bits, or reach to the end.
      guard length >= 8 else { return nil }
      at += length
    }
    guard bytes.hasBytes("ihdr".utf8, at: at + 12), let height = number(at: at + 16),
      let width = number(at: at + 20)
    else { return nil }
    return (.jpeg2000, width, height)
  }
}
