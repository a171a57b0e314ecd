/// The resource fork of a file ("Inside Macintosh: More Macintosh Toolbox", "Resource File Format").
public enum ResourceFork {
  /// The number of the icon that a user has given to a file, or in the file `Icon\r` to the folder around it ("Icons.h":
  /// `kCustomIconResource`).
  public static let customIcon: Int16 = -16455

  /// Extended attributes that hold a resource fork on Linux, in the order of precedence: as rsync, tar and virtiofs copy it, as
  /// drivers of Apple's file systems show it, and as Samba stores it.
  public static let attributes = [
    "user.com.apple.ResourceFork", "osx.com.apple.ResourceFork", "com.apple.ResourceFork",
    "user.DosStream.AFP_Resource:$DATA",
  ]

  /// The data of one resource within the fork; nil when there is none, or it does not lie within the fork.
  ///
  /// Only the first list of a type is read, so that a fork takes time by its length at most.
  ///
  /// - Parameters:
  ///   - type: four characters of ASCII.
  ///   - number: nil for the first resource of the type.
  public static func resource(_ type: String, _ number: Int16? = nil, in fork: [UInt8]) -> Range<Int>? {
    guard fork.count <= ParserLimits.pictureBytes,
      let data = fork.offset(UInt32.self, at: 0), let map = fork.offset(UInt32.self, at: 4),
      let types = fork.offset(UInt16.self, at: map + 24).map({ map + $0 }),
      let references = references(type, types, fork),
      let start = (0..<references.count).lazy.map({ references.start + 12 * $0 }).first(where: {
        number == nil || fork.bigEndian(UInt16.self, at: $0) == number.map(UInt16.init(bitPattern:))
      }),
      // The first byte holds attributes of the resource.
      let offset = fork.offset(UInt32.self, at: start + 4).map({ data + $0 & 0xFFFFFF }),
      let length = fork.offset(UInt32.self, at: offset), length <= fork.count - offset - 4
    else { return nil }
    return offset + 4..<offset + 4 + length
  }

  /// The list of the resources of a type.
  ///
  /// - Parameter types: where the list of types begins. It holds their number less one, and eight bytes for each.
  private static func references(_ type: String, _ types: Int, _ fork: [UInt8]) -> (start: Int, count: Int)? {
    guard let last = fork.bigEndian(UInt16.self, at: types) else { return nil }
    // A fork without resources has the number -1.
    let entries = (0..<Int(last &+ 1)).lazy.map { types + 2 + 8 * $0 }
    guard let entry = entries.first(where: { fork.hasBytes(type.utf8, at: $0) }),
      let last = fork.offset(UInt16.self, at: entry + 4), let offset = fork.offset(UInt16.self, at: entry + 6)
    else { return nil }
    return (types + offset, last + 1)
  }
}

extension [UInt8] {
  fileprivate func offset<T: FixedWidthInteger & UnsignedInteger>(_ type: T.Type, at offset: Int) -> Int? {
    bigEndian(type, at: offset).map { Int($0) }
  }
}
