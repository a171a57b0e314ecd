/// The Finder's flags of a file or directory, from its 32 bytes of Finder info ("Finder.h": `FileInfo`, `FolderInfo`).
public struct FinderInfo: Hashable, Sendable {
  /// Length of the record, in bytes.
  public static let size = 32
  private static let flagsOffset = 8

  /// One bit of the record's flags.
  public enum Flag: UInt16, CaseIterable, Sendable {
    case hidesExtension = 0x0010
    case hasBundle = 0x2000
    case isInvisible = 0x4000
    case isAlias = 0x8000
  }

  /// All sixteen flags.
  public var flags: UInt16

  /// Not shown by the Finder.
  public var isInvisible: Bool { has(.isInvisible) }
  /// A directory shown as a package.
  public var hasBundle: Bool { has(.hasBundle) }
  /// The extension is not shown.
  public var hidesExtension: Bool { has(.hidesExtension) }

  /// The name of the label's color, which since OS X 10.9 is that of a tag; nil for an item without a label.
  public var labelName: String? {
    let number = Int(flags >> 1 & 0x7)
    return number == 0 ? nil : Self.labelNames[number - 1]
  }

  /// The names that the Finder gives tags of these colors in English, in the order of their numbers.
  private static let labelNames = ["Gray", "Green", "Purple", "Blue", "Yellow", "Red", "Orange"]

  public func has(_ flag: Flag) -> Bool { flags & flag.rawValue != 0 }

  /// Parses the plain record; nil unless there are exactly 32 bytes.
  public init?(_ record: [UInt8]) {
    guard record.count == Self.size, let flags = record.bigEndian(UInt16.self, at: Self.flagsOffset) else {
      return nil
    }
    self.flags = flags
  }

  /// A whole record with only `flag` set, to be stored where there is no record yet.
  public static func record(setting flag: Flag) -> [UInt8] {
    setting(flag, to: true, store: .plain, in: Array(repeating: 0, count: size)) ?? []
  }
}

extension FinderInfo {
  /// A location of Finder info on Linux. The order of `allCases` is that of precedence: the first one present is used.
  public enum Store: CaseIterable, Sendable {
    /// The copy written by rsync, tar, ZFS and virtiofs.
    case plain
    /// Provided by the kernel's hfsplus and by linux-apfs.
    case appleFileSystem
    /// Provided by user-space drivers of Apple's file systems.
    case bare
    /// netatalk 3, and Samba with `fruit:metadata=netatalk`.
    case netatalk
    /// Samba with `fruit:metadata=stream` and streams_xattr.
    case sambaStream
    /// Samba with `fruit:metadata=stream` and streams_depot: a file of ``SambaDepot``.
    case sambaDepot
    /// The contents of `._name`, or of netatalk's `.AppleDouble/name`.
    case appleDouble

    /// The extended attribute; nil for the stores that are files.
    public var attribute: String? {
      switch self {
      case .plain: "user.com.apple.FinderInfo"
      case .appleFileSystem: "osx.com.apple.FinderInfo"
      case .bare: "com.apple.FinderInfo"
      case .netatalk: "user.org.netatalk.Metadata"
      case .sambaStream: "user.DosStream.AFP_AfpInfo:$DATA"
      case .sambaDepot, .appleDouble: nil
      }
    }

    /// The range of the 32 bytes in the store's `bytes`; nil when the bytes are malformed.
    fileprivate func record(in bytes: [UInt8]) -> Range<Int>? {
      guard bytes.count <= ParserLimits.inputBytes else { return nil }
      let range: Range<Int>?
      switch self {
      case .plain, .appleFileSystem, .bare:
        range = bytes.count == FinderInfo.size ? 0..<FinderInfo.size : nil
      case .netatalk:
        range = bytes.count == 402 ? AppleDouble(bytes)?.finderInfo : nil
      case .sambaStream, .sambaDepot:
        // 60 bytes as defined by AFP, and the NUL that streams_xattr appends.
        let signed = bytes.starts(with: Array("AFP\0".utf8) + [0, 0, 1, 0])
        range = signed && (bytes.count == 60 || bytes.count == 61) ? 16..<16 + FinderInfo.size : nil
      case .appleDouble:
        range = AppleDouble(bytes)?.finderInfo
      }
      return range
    }
  }

  /// Parses Finder info from a store; nil when the bytes are malformed for that store.
  public static func decode(store: Store, bytes: [UInt8]) -> FinderInfo? {
    store.record(in: bytes).flatMap { FinderInfo(Array(bytes[$0])) }
  }

  /// The store's bytes with one flag set or cleared and all other bits unchanged; nil when the bytes are malformed for that
  /// store.
  public static func setting(_ flag: Flag, to on: Bool, store: Store, in bytes: [UInt8]) -> [UInt8]? {
    guard let record = store.record(in: bytes) else { return nil }
    let at = record.lowerBound + flagsOffset
    guard let old = bytes.bigEndian(UInt16.self, at: at) else { return nil }
    let new = on ? old | flag.rawValue : old & ~flag.rawValue
    var changed = bytes
    changed[at] = UInt8(new >> 8)
    changed[at + 1] = UInt8(new & 0xFF)
    return changed
  }
}
