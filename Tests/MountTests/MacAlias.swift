/// Alias files as the Finder writes them.
enum MacAlias {
  /// The content of an alias file: a bookmark.
  ///
  /// - Parameters:
  ///   - path: on the Mac, absolute.
  ///   - volume: the mount point of the target's volume.
  static func file(_ path: String, volume: String = "/") -> [UInt8] {
    func item(_ kind: Int, _ data: [UInt8]) -> [UInt8] {
      little(data.count) + little(kind) + data + [UInt8](repeating: 0, count: -data.count & 3)
    }
    var body: [UInt8] = little(0)
    var offsets: [UInt8] = []
    for component in path.split(separator: "/") {
      offsets += little(body.count)
      body += item(0x0101, Array(component.utf8))
    }
    let entries: [(key: Int, item: [UInt8])] = [
      (0x1004, item(0x0601, offsets)), (0x2002, item(0x0101, Array(volume.utf8))),
      (0x2030, item(volume == "/" ? 0x0501 : 0x0500, [])),
    ]
    var table: [UInt8] = []
    for entry in entries {
      table += little(entry.key) + little(body.count) + little(0)
      body += entry.item
    }
    body.replaceSubrange(0..<4, with: little(body.count))
    body +=
      little(12 + table.count) + little(0xffff_fffe) + little(1) + little(0) + little(entries.count) + table
    return Array("book\0\0\0\0mark\0\0\0\0".utf8) + little(56) + little(56) + little(body.count) + [
      0, 0, 4, 0x10,
    ]
      + [UInt8](repeating: 0, count: 24) + body
  }

  /// The resource fork of an old alias file: an alias record.
  ///
  /// - Parameter path: from the root of the target's volume.
  static func fork(_ path: String, volume: String) -> [UInt8] {
    func tag(_ number: UInt8, _ value: String) -> [UInt8] {
      [0, number, 0, UInt8(value.utf8.count)] + Array(value.utf8)
        + [UInt8](repeating: 0, count: value.utf8.count & 1)
    }
    let tags = tag(18, path) + tag(19, volume) + [0xff, 0xff, 0, 0]
    let record =
      [0, 0, 0, 0] + Array(big(150 + tags.count).suffix(2)) + [0, 2] + [UInt8](repeating: 0, count: 142)
      + tags
    let data = big(record.count) + record
    let map =
      [UInt8](repeating: 0, count: 24) + [0, 28, 0, 50] + [0, 0] + Array("alis".utf8) + [0, 0, 0, 10]
      + [0, 0, 0xff, 0xff] + big(0) + big(0)
    return big(256) + big(256 + data.count) + big(data.count) + big(map.count)
      + [UInt8](repeating: 0, count: 240) + data + map
  }

  private static func little(_ value: Int) -> [UInt8] { big(value).reversed() }
  private static func big(_ value: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
  }
}
