/// A bookmark of macOS, the content of an alias file: a table of keys and values.
///
/// Source: "Mac Bookmark Format" in the documentation of the Python package mac_alias. In an alias file the header has 56 bytes
/// and begins with `book\0\0\0\0mark`.
struct Bookmark {
  private let bytes: [UInt8]
  /// The length of the header. All positions are relative to its end.
  private let base: Int
  private var items: [UInt32: Int] = [:]

  private enum Key {
    static let path: UInt32 = 0x1004
    static let volumePath: UInt32 = 0x2002
    static let isVolumeRoot: UInt32 = 0x2030
    static let all = [path, volumePath, isVolumeRoot]
  }
  private enum Kind {
    static let string: UInt32 = 0x0101
    static let isTrue: UInt32 = 0x0501
    static let array: UInt32 = 0x0601
  }

  /// The beginning of an alias file.
  static let magic = Array("book\0\0\0\0mark".utf8)

  /// The most tables that are read, each of which names the next.
  private static let maximumTables = 16

  init?(_ bytes: [UInt8]) {
    guard bytes.count <= ParserLimits.inputBytes, bytes.starts(with: Array("book".utf8)) else { return nil }
    let isAliasFile = bytes.starts(with: Self.magic)
    guard let base = bytes.littleEndian(UInt32.self, at: isAliasFile ? 16 : 12).map(Int.init), base >= 16,
      var table = bytes.littleEndian(UInt32.self, at: base).map(Int.init)
    else { return nil }
    self.bytes = bytes
    self.base = base
    for _ in 0..<Self.maximumTables where table != 0 {
      let at = base + table
      guard bytes.littleEndian(UInt32.self, at: at + 4) == 0xFFFF_FFFE,
        let next = bytes.littleEndian(UInt32.self, at: at + 12).map(Int.init),
        let count = bytes.littleEndian(UInt32.self, at: at + 16).map(Int.init)
      else { return nil }
      for index in 0..<count {
        let entry = at + 20 + 12 * index
        guard let key = bytes.littleEndian(UInt32.self, at: entry),
          let position = bytes.littleEndian(UInt32.self, at: entry + 4).map(Int.init)
        else { return nil }
        // The first table describes the target, others describe disk images that its volume lies on.
        if Key.all.contains(key), items[key] == nil { items[key] = position }
      }
      table = next
    }
  }

  /// Nil where the path is missing or malformed.
  var target: AliasTarget? {
    guard let path = items[Key.path].flatMap(texts) else { return nil }
    return AliasTarget(volume: volume, path: path)
  }

  private var volume: [[UInt8]] {
    if items[Key.isVolumeRoot].flatMap(item)?.kind == Kind.isTrue { return [] }
    guard let position = items[Key.volumePath] else { return [] }
    return texts(at: position) ?? text(at: position).map(AliasTarget.components) ?? []
  }

  private func item(at position: Int) -> (kind: UInt32, data: Range<Int>)? {
    let at = base + position
    guard let length = bytes.littleEndian(UInt32.self, at: at).map(Int.init),
      let kind = bytes.littleEndian(UInt32.self, at: at + 4), length <= bytes.count - at - 8
    else { return nil }
    return (kind, at + 8..<at + 8 + length)
  }

  private func text(at position: Int) -> [UInt8]? {
    guard let item = item(at: position), item.kind == Kind.string else { return nil }
    return Array(bytes[item.data])
  }

  private func texts(at position: Int) -> [[UInt8]]? {
    guard let item = item(at: position), item.kind == Kind.array, item.data.count.isMultiple(of: 4),
      item.data.count <= 4 * AliasTarget.maximumDepth
    else { return nil }
    var texts: [[UInt8]] = []
    for at in stride(from: item.data.lowerBound, to: item.data.upperBound, by: 4) {
      guard let position = bytes.littleEndian(UInt32.self, at: at).map(Int.init),
        let text = text(at: position), text.count <= 255
      else { return nil }
      texts.append(text)
    }
    return texts
  }
}
