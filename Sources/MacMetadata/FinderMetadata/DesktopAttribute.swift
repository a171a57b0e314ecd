/// What macOS stores for an item in its metadata, beside the Finder info. Linux desktops show most of it by an extended attribute of
/// their own.
///
/// Sources: "Guidelines for extended attributes" (freedesktop.org); "MDItem.h" of macOS. The values are those that
/// KFileMetaData reads and writes: tags are separated by commas.
public enum DesktopAttribute: CaseIterable, Sendable {
  case tags, comment, origin
  /// That Time Machine leaves the item out. ("CSBackup.h", `CSBackupSetItemExcluded`)
  case backupExclusion

  /// The extended attribute of Linux desktops; nil where they have none.
  public var name: String? {
    switch self {
    case .tags: "user.xdg.tags"
    case .comment: "user.xdg.comment"
    case .origin: "user.xdg.origin.url"
    case .backupExclusion: nil
    }
  }

  /// Those that Linux desktops show, each with their name for it.
  public static let shown = allCases.compactMap { attribute in
    attribute.name.map { (name: $0, attribute: attribute) }
  }

  /// The Spotlight item. macOS keeps its property list in an extended attribute `com.apple.metadata:ITEM`.
  private var item: String {
    switch self {
    case .tags: "_kMDItemUserTags"
    case .comment: "kMDItemFinderComment"
    case .origin: "kMDItemWhereFroms"
    case .backupExclusion: "com_apple_backup_excludeItem"
    }
  }

  /// The names by which macOS and Samba know the attribute. SMB permits no colon there; Macs send the character U+F022
  /// instead, which Samba stores as it is, unless it is configured with `fruit:encoding=native`.
  public var macNames: [String] {
    [":", "\u{F022}"].map { "com.apple.metadata\($0)\(item)" }
  }

  /// The largest value, in bytes: XATTR_SIZE_MAX of Linux.
  public static let largestValue = 65_536

  /// The value for Linux desktops; empty where the list says that the item has none, nil where it is malformed.
  ///
  /// - Parameter list: the property list, to which Samba and netatalk may have appended a NUL.
  public func value(ofPropertyList list: [UInt8]) -> [UInt8]? {
    guard list.count <= Self.largestValue + 1 else { return nil }
    // A list may end in a NUL of its own.
    guard let parsed = Self.parse(list) ?? (list.last == 0 ? Self.parse(Array(list.dropLast())) : nil) else {
      return nil
    }
    let value: [UInt8]
    switch (self, parsed) {
    case (.tags, .array): value = Self.tags(parsed.elements.compactMap(\.text))
    case (.comment, .string(let text)): value = Self.comment(text)
    case (.origin, .array), (.origin, .string):
      value = Self.line(parsed.oneOrMoreTexts.first { !$0.isEmpty } ?? "")
    case (.backupExclusion, .string(let text)): value = Self.line(text)
    default: return nil
    }
    return value.count <= Self.largestValue ? value : nil
  }

  private static func parse(_ list: [UInt8]) -> PropertyListValue? {
    list.isEmpty ? nil : PropertyListValue.parse(list)
  }

  /// Tags of a Mac are `name\ncolor`. No name has a comma: in the Finder, a comma ends it.
  private static func tags(_ tags: [String]) -> [UInt8] {
    var known: Set<[UInt8]> = []
    var value: [UInt8] = []
    for tag in tags {
      let name = line(tag.prefix { !$0.isNewline })
      guard !name.isEmpty, known.insert(name).inserted else { continue }
      if !value.isEmpty { value.append(UInt8(ascii: ",")) }
      value += name
      if value.count > largestValue { break }
    }
    return value
  }

  /// A comment without control characters, line feeds and tabs excepted.
  static func comment(_ text: some StringProtocol) -> [UInt8] {
    utf8(text) { $0 >= 0x20 || $0 == 0x0a || $0 == 0x09 }
  }

  private static func line(_ text: some StringProtocol) -> [UInt8] { utf8(text) { $0 >= 0x20 } }

  private static func utf8(_ text: some StringProtocol, where isKept: (UInt32) -> Bool) -> [UInt8] {
    let scalars = text.unicodeScalars.filter {
      isKept($0.value) && !(0x7f...0x9f).contains($0.value)
    }
    return Array(String(String.UnicodeScalarView(scalars)).utf8)
  }
}

extension DesktopAttribute {
  /// Where an extended attribute of Linux keeps it, in the order of ``FinderInfo/Store``: lower ones take precedence.
  public struct Storage: Sendable {
    public let attribute: DesktopAttribute
    public let precedence: Int
  }

  /// What an extended attribute of Linux holds; nil for every other attribute.
  public static func storage(_ name: some Collection<UInt8>) -> Storage? {
    for (precedence, (prefix, suffixes)) in storages.enumerated() where name.starts(with: prefix) {
      let rest = name.dropFirst(prefix.count)
      for (attribute, macName) in allMacNames where rest.starts(with: macName) {
        let suffix = rest.dropFirst(macName.count)
        if suffixes.contains(where: suffix.elementsEqual) {
          return Storage(attribute: attribute, precedence: precedence)
        }
      }
    }
    return nil
  }

  /// The names that rsync, tar, ZFS, virtiofs and netatalk give attributes of macOS; the kernel's hfsplus and linux-apfs;
  /// drivers in user space; and Samba's streams_xattr.
  private static let storages: [(prefix: [UInt8], suffixes: [[UInt8]])] = [
    (Array("user.".utf8), [[]]), (Array("osx.".utf8), [[]]), ([], [[]]),
    (Array("user.DosStream.".utf8), [Array(":$DATA".utf8), []]),
  ]

  private static let allMacNames = allCases.flatMap { attribute in
    attribute.macNames.map { (attribute, Array($0.utf8)) }
  }
}
