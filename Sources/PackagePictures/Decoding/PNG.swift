import CZlib
import MacMetadata

/// Writes PNG files ("Portable Network Graphics (PNG) Specification").
public enum PNG {
  /// The file of a picture with 8 bits for each of red, green, blue and alpha, without filters; nil where zlib has no memory.
  public static func encoded(_ bitmap: PixelBitmap) -> [UInt8]? {
    var lines: [UInt8] = []
    let stride = 4 * bitmap.width
    lines.reserveCapacity(bitmap.bytes.count + bitmap.height)
    for line in 0..<bitmap.height {
      lines.append(0)
      lines += bitmap.bytes[line * stride..<(line + 1) * stride]
    }
    guard let data = compressed(lines) else { return nil }
    let header = big32(bitmap.width) + big32(bitmap.height) + [8, 6, 0, 0, 0]
    return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + chunk("IHDR", header) + chunk("IDAT", data)
      + chunk("IEND", [])
  }

  private static func compressed(_ bytes: [UInt8]) -> [UInt8]? {
    var length = compressBound(uLong(bytes.count))
    var out = [UInt8](repeating: 0, count: Int(length))
    guard compress(&out, &length, bytes, uLong(bytes.count)) == Z_OK else { return nil }
    return Array(out[..<Int(length)])
  }

  private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
    let body = Array(type.utf8) + data
    return big32(data.count) + body + checksum(body)
  }

  /// What follows the type and the data of a chunk.
  package static func checksum(_ body: [UInt8]) -> [UInt8] { big32(Int(crc32(0, body, uInt(body.count)))) }

  private static func big32(_ value: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
  }
}
