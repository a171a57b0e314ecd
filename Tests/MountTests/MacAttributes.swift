/// What Macs and their servers write for tags, comments and origins.
enum MacAttributes {
  static let tags = "com.apple.metadata:_kMDItemUserTags"
  static let comment = "com.apple.metadata:kMDItemFinderComment"
  static let origin = "com.apple.metadata:kMDItemWhereFroms"

  /// A binary property list of an array of strings, or of one string.
  static func list(_ strings: [String], isArray: Bool = true) -> [UInt8] {
    let texts = strings.map { text -> [UInt8] in
      let units = text.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }
      return [0x6f, 0x10, UInt8(text.utf16.count)] + units
    }
    let objects =
      isArray ? [[0xa0 | UInt8(texts.count)] + (0..<UInt8(texts.count)).map { $0 + 1 }] + texts : texts
    var bytes = Array("bplist00".utf8)
    var table: [UInt8] = []
    for object in objects {
      table += [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)]
      bytes += object
    }
    let start = UInt8(bytes.count)
    return bytes + table + [0, 0, 0, 0, 0, 0, 2, 1] + number(UInt8(objects.count)) + number(0) + number(start)
  }

  private static func number(_ value: UInt8) -> [UInt8] { [0, 0, 0, 0, 0, 0, 0, value] }

  /// A tag list, a comment and an origin with the value `text`, by their names.
  static func all(_ text: String) -> [(name: String, list: [UInt8])] {
    [
      (tags, list(["\(text)\n6", "second"])), (comment, list([text], isArray: false)),
      (origin, list(["https://\(text).example/", "https://example/"])),
    ]
  }

  /// A sidecar as macOS writes it, with extended attributes after the Finder info.
  static func appleDouble(_ info: [UInt8], _ attributes: [(name: String, list: [UInt8])]) -> [UInt8] {
    let heads = attributes.map { (11 + $0.name.utf8.count + 1 + 3) & ~3 }
    let start = 120 + heads.reduce(0, +)
    let end = start + attributes.map(\.list.count).reduce(0, +)
    func big(_ values: Int...) -> [UInt8] {
      values.flatMap { value in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) } }
    }
    var bytes = [0x00, 0x05, 0x16, 0x07, 0x00, 0x02, 0x00, 0x00] + Array("Mac OS X        ".utf8) + [0, 2]
    bytes += big(9, 50, end - 50, 2, end, 0) + info + [0, 0]
    bytes +=
      Array("ATTR".utf8) + big(0, end, start, end - start, 0, 0, 0) + [0, 0, 0, UInt8(attributes.count)]
    var at = start
    for (attribute, head) in zip(attributes, heads) {
      let name = Array(attribute.name.utf8) + [0]
      bytes += big(at, attribute.list.count) + [0, 0, UInt8(name.count)] + name
      bytes += [UInt8](repeating: 0, count: head - 11 - name.count)
      at += attribute.list.count
    }
    return bytes + attributes.flatMap(\.list)
  }

  /// The name that Samba gives a stream of a Mac: SMB permits no colon in it.
  static func streamName(_ name: String) -> String { name.replacing(":", with: "\u{F022}") }
}
