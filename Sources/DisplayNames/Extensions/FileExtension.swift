/// Finds a name's extension.
public enum FileExtension {
  /// The length of the part before the period of the extension, or nil when the name has no extension.
  ///
  /// The extension is the part after the last period ("File System Basics", Filename Extensions). A name has no extension when
  /// that period is the first or the last byte, when a space or a control that reorders text follows it (Foundation's
  /// `URL.pathExtension` rejects these too; with such a control `exe.jpg` can be displayed as `gpj.exe`), or when the stem would
  /// be `.` or `..`. The stem is therefore a usable name, and begins with a period only if `name` does. The bytes are not
  /// decoded: a name need not be UTF-8.
  public static func stemLength(of name: Span<UInt8>) -> Int? {
    var dot = name.count - 1
    while dot >= 0, name[dot] != period { dot -= 1 }
    guard dot > 0, dot < name.count - 1 else { return nil }
    if dot <= 2, name[0] == period, name[dot - 1] == period { return nil }
    var index = dot + 1
    while index < name.count {
      let byte = name[index]
      if byte == 0x20 || byte == 0x2f || reordersText(name, at: index) { return nil }
      index += 1
    }
    return dot
  }

  /// Whether the UTF-8 sequence at `index` is one of the bidirectional controls
  /// U+061C, U+200E, U+200F, U+202A...U+202E and U+2066...U+2069.
  private static func reordersText(_ name: Span<UInt8>, at index: Int) -> Bool {
    let first = name[index]
    if first == 0xd8 { return index + 1 < name.count && name[index + 1] == 0x9c }
    guard first == 0xe2, index + 2 < name.count else { return false }
    return switch (name[index + 1], name[index + 2]) {
    case (0x80, 0x8e...0x8f), (0x80, 0xaa...0xae), (0x81, 0xa6...0xa9): true
    default: false
    }
  }

  private static let period: UInt8 = 0x2e
}
