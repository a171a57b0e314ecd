import MacMetadata
import PackagePictures

/// Pictures, and the files that they are kept in, for tests.
public enum SamplePicture {
  /// A PNG of one color: red, green, blue and alpha.
  public static func png(_ side: Int, _ color: [UInt8] = [1, 2, 3, 255]) -> [UInt8] {
    let bytes = Array(repeating: color, count: side * side).flatMap { $0 }
    return PixelBitmap(width: side, height: side, bytes: bytes).flatMap { PNG.encoded($0) } ?? []
  }

  /// A PNG with the header of a larger one.
  public static func png(_ side: Int, claiming claimed: Int) -> [UInt8] {
    var bytes = png(side)
    bytes.replaceSubrange(16..<24, with: big32(claimed) + big32(claimed))
    return bytes.prefix(29) + PNG.checksum(Array(bytes[12..<29])) + bytes.dropFirst(33)
  }

  /// A TIFF of one color, without compression.
  public static func tiff(_ side: Int, _ color: [UInt8]) -> [UInt8] {
    let pixels = Array(repeating: Array(color.prefix(3)), count: side * side).flatMap { $0 }
    let entries = [
      (256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8 << 16), (259, 3, 1, 1 << 16), (262, 3, 1, 2 << 16),
      (273, 4, 1, 8), (277, 3, 1, 3 << 16), (278, 4, 1, side), (279, 4, 1, pixels.count),
    ]
    let list = entries.flatMap { big16($0.0) + big16($0.1) + big32($0.2) + big32($0.3) }
    return [0x4D, 0x4D, 0, 42] + big32(8 + pixels.count) + pixels + big16(entries.count) + list + big32(0)
  }

  /// A JPEG of 8 pixels a side in medium gray: a table of quantization, the frame, two codes of Huffman, the scan.
  public static let jpeg: [UInt8] = {
    let quantization: [UInt8] = [0xFF, 0xDB, 0, 67, 0] + Array(repeating: 1, count: 64)
    let frame: [UInt8] = [0xFF, 0xC0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0]
    // Of each kind one code of one bit, for zero.
    let codes = [0, 0x10].flatMap { (kind: UInt8) -> [UInt8] in
      [0xFF, 0xC4, 0, 20, kind, 1] + Array(repeating: 0, count: 16)
    }
    let scan: [UInt8] = [0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0, 0x3F]
    return [0xFF, 0xD8] + quantization + frame + codes + scan + [0xFF, 0xD9]
  }()

  /// The data of an icon's element with alpha, of one color.
  public static func argb(_ side: Int, _ color: [UInt8]) -> [UInt8] {
    let count = side * side
    func plane(_ value: UInt8) -> [UInt8] {
      let runs = Array(repeating: [0xFF, value], count: count / 130)
      return (runs + Array(repeating: [0, value], count: count % 130)).flatMap { $0 }
    }
    return Array("ARGB".utf8) + plane(color[3]) + color.prefix(3).flatMap(plane)
  }

  /// An icon of these elements.
  public static func icon(_ elements: [(type: String, data: [UInt8])]) -> [UInt8] {
    let body = elements.flatMap { Array($0.type.utf8) + big32($0.data.count + 8) + $0.data }
    return Array("icns".utf8) + big32(body.count + 8) + body
  }

  /// A resource fork with this as the icon that a user has chosen.
  public static func resourceFork(customIcon icon: [UInt8]) -> [UInt8] {
    let list = big16(0) + Array("icns".utf8) + big16(0) + big16(10)
    let reference = big16(Int(ResourceFork.customIcon)) + [0xFF, 0xFF] + big32(0) + big32(0)
    let map =
      Array(repeating: 0, count: 24) + big16(28) + big16(28 + list.count + reference.count) + list + reference
    let data = big32(icon.count) + icon
    return [16, 16 + data.count, data.count, map.count].flatMap(big32) + data + map
  }

  /// An AppleDouble file with this resource fork alone.
  public static func appleDouble(_ fork: [UInt8]) -> [UInt8] {
    [0, 5, 0x16, 7, 0, 2, 0, 0] + Array("Mac OS X        ".utf8) + big16(1)
      + [2, 38, fork.count].flatMap(big32) + fork
  }

  private static func big32(_ value: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
  }
  private static func big16(_ value: Int) -> [UInt8] {
    [8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
  }
}
