/// The DOS attributes that Samba and ntfs-3g store for a file.
public struct DOSAttributes: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let hidden = DOSAttributes(rawValue: 0x0002)
  public static let system = DOSAttributes(rawValue: 0x0004)

  /// The extended attribute in which Samba stores them.
  public static let sambaAttribute = "user.DOSATTRIB"
  /// The extended attributes of ntfs-3g: the first in big-endian, the second in little-endian byte order.
  public static let ntfsBigEndianAttribute = "system.ntfs_attrib_be"
  public static let ntfsAttribute = "system.ntfs_attrib"

  /// Parses Samba's value: a hexadecimal string, alone or followed by an NDR structure of version 1, 3, 4 or 5. Nil when it is
  /// malformed or flags the attributes as not valid (Samba's "xattr.idl").
  public init?(samba bytes: [UInt8]) {
    guard !bytes.isEmpty, bytes.count <= ParserLimits.inputBytes else { return nil }
    let end = bytes.firstIndex(of: 0) ?? bytes.count
    guard end + 1 < bytes.count else {
      self.init(hexadecimal: bytes[..<end])
      return
    }
    let version = Self.aligned(end + 1, to: 2)
    let body = Self.aligned(version + 4, to: 4)
    guard let number = bytes.littleEndian(UInt16.self, at: version),
      bytes.littleEndian(UInt16.self, at: version + 2) == number,
      let first = bytes.littleEndian(UInt32.self, at: body)
    else { return nil }
    switch number {
    case 1:
      self.init(rawValue: first)
    case 3, 4, 5:
      guard first & 1 != 0, let attributes = bytes.littleEndian(UInt32.self, at: body + 4) else { return nil }
      self.init(rawValue: attributes)
    default: return nil
    }
  }

  /// Parses `system.ntfs_attrib_be`; nil unless there are exactly four bytes.
  public init?(ntfsBigEndian bytes: [UInt8]) {
    guard bytes.count == 4, let value = bytes.bigEndian(UInt32.self, at: 0) else { return nil }
    self.init(rawValue: value)
  }

  /// Parses `system.ntfs_attrib`; nil unless there are exactly four bytes.
  public init?(ntfs bytes: [UInt8]) {
    guard bytes.count == 4, let value = bytes.littleEndian(UInt32.self, at: 0) else { return nil }
    self.init(rawValue: value)
  }

  private init?(hexadecimal bytes: ArraySlice<UInt8>) {
    guard bytes.starts(with: Array("0x".utf8)) || bytes.starts(with: Array("0X".utf8)),
      bytes.dropFirst(2).allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
      let digits = String(validating: bytes.dropFirst(2), as: UTF8.self),
      let value = UInt32(digits, radix: 16)
    else { return nil }
    self.init(rawValue: value)
  }

  private static func aligned(_ offset: Int, to size: Int) -> Int { (offset + size - 1) / size * size }
}
