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
  }

  /// All sixteen flags.
  public var flags: UInt16

  /// Not shown by the Finder.
  public var isInvisible: Bool { has(.isInvisible) }
  /// A directory shown as a package.
  public var hasBundle: Bool { has(.hasBundle) }
  /// The extension is not shown.
  public var hidesExtension: Bool { has(.hidesExtension) }

  public func has(_ flag: Flag) -> Bool { flags & flag.rawValue != 0 }

  /// Reads the plain record; nil unless there are exactly 32 bytes.
  public init?(_ record: [UInt8]) {
    guard record.count == Self.size, let flags = record.bigEndian(UInt16.self, at: Self.flagsOffset) else {
      return nil
    }
    self.flags = flags
  }

  /// A record kept whole that sets `flag` alone: what to store where nothing is stored yet.
  public static func record(setting flag: Flag) -> [UInt8] {
    setting(flag, to: true, store: .plain, in: Array(repeating: 0, count: size)) ?? []
  }
}

extension FinderInfo {
  /// A place where Finder info is kept on Linux. `allCases` is the order to look: the first that is present counts.
  public enum Store: CaseIterable, Sendable {
    /// The copy rsync, tar, ZFS and virtiofs make.
    case plain
    /// What the kernel's hfsplus and linux-apfs answer.
    case appleFileSystem
    /// What user-space drivers of Apple's file systems answer.
    case bare
    /// netatalk 3, and Samba with `fruit:metadata=netatalk`.
    case netatalk
    /// Samba with `fruit:metadata=stream` and streams_xattr.
    case sambaStream
    /// The same with streams_depot: a file of ``SambaDepot``.
    case sambaDepot
    /// The contents of `._name`, or of netatalk 2's `.AppleDouble/name`.
    case appleDouble

    /// The extended attribute, nil for the stores that are files.
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

    /// Where the 32 bytes are in the store's `bytes`, nil when it is malformed.
    fileprivate func record(in bytes: [UInt8]) -> Range<Int>? {
      guard bytes.count <= ParserLimits.inputBytes else { return nil }
      let range: Range<Int>?
      switch self {
      case .plain, .appleFileSystem, .bare:
        range = bytes.count == FinderInfo.size ? 0..<FinderInfo.size : nil
      case .netatalk:
        range = bytes.count == 402 ? AppleDouble(bytes)?.finderInfo : nil
      case .sambaStream, .sambaDepot:
        // 60 bytes as AFP defines them, and the NUL that streams_xattr appends.
        let signed = bytes.starts(with: Array("AFP\0".utf8) + [0, 0, 1, 0])
        range = signed && (bytes.count == 60 || bytes.count == 61) ? 16..<16 + FinderInfo.size : nil
      case .appleDouble:
        range = AppleDouble(bytes)?.finderInfo
      }
      return range
    }
  }

  /// Reads Finder info from a store; nil when the bytes are not what the store keeps.
  public static func decode(store: Store, bytes: [UInt8]) -> FinderInfo? {
    store.record(in: bytes).flatMap { FinderInfo(Array(bytes[$0])) }
  }

  /// The store's bytes with one flag set or cleared and everything else untouched; nil when they are not what the
  /// store keeps.
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
