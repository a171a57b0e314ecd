/// An alias record, as Mac OS 9 and early versions of OS X kept it in the resource `alis` of an alias file.
///
/// Source: "Mac Alias Format" in the documentation of the Python package mac_alias. Everything is big-endian.
enum AliasRecord {
  private enum Tag {
    static let carbonPath: UInt16 = 2
    static let unicodeName: UInt16 = 14
    static let path: UInt16 = 18
    static let mountPoint: UInt16 = 19
    static let end: UInt16 = 0xFFFF
  }

  /// Nil where the record is malformed or has no path.
  static func target(_ bytes: [UInt8]) -> AliasTarget? {
    guard bytes.count <= ParserLimits.inputBytes,
      let size = bytes.bigEndian(UInt16.self, at: 4).map(Int.init),
      size <= bytes.count, let version = bytes.bigEndian(UInt16.self, at: 6), version == 2 || version == 3
    else { return nil }
    // The length of what stands before the tags.
    let start = version == 2 ? 150 : 58
    guard size >= start, let values = values(in: bytes, from: start, to: size) else { return nil }
    let volume = values[Tag.mountPoint].map { AliasTarget.components(of: bytes[$0]) } ?? []
    if let path = values[Tag.path] {
      return AliasTarget(volume: volume, path: AliasTarget.components(of: bytes[path].prefix { $0 != 0 }))
    }
    guard let path = values[Tag.carbonPath] else { return nil }
    // The volume's name comes first. NULs stand between the names, and a slash in a name is a colon for POSIX.
    var components = bytes[path].split(separator: UInt8(ascii: ":")).dropFirst().map { name in
      posixName(TextEncoding.macRoman(name.filter { $0 != 0 }))
    }
    if let name = values[Tag.unicodeName].flatMap({ unicodeName(bytes[$0]) }), !components.isEmpty {
      components[components.count - 1] = posixName(name)
    }
    return AliasTarget(volume: volume, path: components)
  }

  private static func values(in bytes: [UInt8], from start: Int, to end: Int) -> [UInt16: Range<Int>]? {
    var values: [UInt16: Range<Int>] = [:]
    var at = start
    while at + 4 <= end {
      guard let tag = bytes.bigEndian(UInt16.self, at: at), tag != Tag.end,
        let length = bytes.bigEndian(UInt16.self, at: at + 2).map(Int.init)
      else { break }
      guard length <= end - at - 4 else { return nil }
      if values[tag] == nil { values[tag] = at + 4..<at + 4 + length }
      at += 4 + (length + 1) & ~1
    }
    return values
  }

  /// A length of two bytes, in characters, and UTF-16.
  private static func unicodeName(_ value: ArraySlice<UInt8>) -> String? {
    let units = Array(value.dropFirst(2))
    guard units.count.isMultiple(of: 2) else { return nil }
    return String(
      validating: stride(from: 0, to: units.count, by: 2).map {
        UInt16(units[$0]) << 8 | UInt16(units[$0 + 1])
      },
      as: UTF16.self)
  }

  private static func posixName(_ name: String) -> [UInt8] { name.utf8.map { $0 == 0x2f ? 0x3a : $0 } }
}
