/// Properties of an entry, besides its name, that may hide it.
public struct HiddenFacts: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The entry is the AppleDouble sidecar of a sibling.
  public static let appleDouble = HiddenFacts(rawValue: 1 << 0)
  /// Its Finder info has the invisible bit.
  public static let finderInvisible = HiddenFacts(rawValue: 1 << 1)
  /// Its Samba or NTFS attributes have the hidden bit.
  public static let dosHidden = HiddenFacts(rawValue: 1 << 2)
  /// The `.hidden` file of its directory lists it.
  public static let inHiddenList = HiddenFacts(rawValue: 1 << 3)
  /// A rule of the configuration hides it.
  public static let configured = HiddenFacts(rawValue: 1 << 4)
}

/// Decides which entries are not listed ("File System Basics", Hidden Files and Directories).
public struct HiddenRules: Sendable {
  private var disabled: UInt32 = 0

  /// All rules except those that the configuration disables.
  public init(disabling reasons: some Sequence<HiddenReason> = []) {
    for reason in reasons { disabled |= Self.bit(reason) }
  }

  /// The reason why the entry is hidden; nil when it is listed. Does not allocate.
  public func reason(
    name: Span<UInt8>, kind: EntryKind, role: DirectoryRole = [], facts: HiddenFacts = []
  ) -> HiddenReason? {
    byFacts(facts) ?? byName(name, kind: kind) ?? byRole(name, kind: kind, role: role)
  }

  private func byFacts(_ facts: HiddenFacts) -> HiddenReason? {
    if facts.isEmpty { return nil }
    if facts.contains(.appleDouble), applies(.appleDouble) { return .appleDouble }
    if facts.contains(.finderInvisible), applies(.finderInvisible) { return .finderInvisible }
    if facts.contains(.dosHidden), applies(.dosHidden) { return .dosHidden }
    if facts.contains(.inHiddenList), applies(.hiddenList) { return .hiddenList }
    if facts.contains(.configured), applies(.configured) { return .configured }
    return nil
  }

  private func byName(_ name: Span<UInt8>, kind: EntryKind) -> HiddenReason? {
    guard name.count > 0 else { return nil }
    if name[0] == 0x2e, applies(.dotFile) { return .dotFile }
    if name[name.count - 1] == 0x0d, applies(.iconFile) { return .iconFile }
    if applies(.windowsFile), Self.windowsFiles.contains(where: { name.equals($0, ignoringCase: true) }) {
      return .windowsFile
    }
    // The Finder's archives store resource forks in this directory, for programs that do not support forks.
    if kind == .directory, applies(.archiveMetadata), name.equals("__MACOSX") { return .archiveMetadata }
    return nil
  }

  private func byRole(_ name: Span<UInt8>, kind: EntryKind, role: DirectoryRole) -> HiddenReason? {
    if role.isEmpty { return nil }
    // `/etc`, `/tmp` and `/var` are symlinks on macOS, `/bin` and `/lib` on most Linux systems.
    let isDirectory = kind == .directory || kind == .symlink
    if role.contains(.home), isDirectory, applies(.homeLibrary), name.equals("Library") {
      return .homeLibrary
    }
    if role.contains(.container), isDirectory, applies(.containerSupport),
      Self.containerSupport.contains(where: { name.equals($0) })
    {
      return .containerSupport
    }
    if role.contains(.cloudContainer), applies(.containerSupport), !name.equals("Documents") {
      return .containerSupport
    }
    if role.contains(.macVolumeRoot) {
      if isDirectory, applies(.volumes), name.equals("Volumes") { return .volumes }
      if isDirectory, applies(.unixDirectory), Self.contains(name, in: Self.macDirectories) {
        return .unixDirectory
      }
      if applies(.volumeRootName), Self.contains(name, in: Self.macRootNames) { return .volumeRootName }
    }
    if role.contains(.unixRoot), isDirectory, applies(.unixDirectory),
      Self.contains(name, in: Self.linuxDirectories)
    {
      return .unixDirectory
    }
    return nil
  }

  private func applies(_ reason: HiddenReason) -> Bool { disabled & Self.bit(reason) == 0 }

  private static func bit(_ reason: HiddenReason) -> UInt32 { 1 << UInt32(reason.rawValue) }

  private static func contains(_ name: Span<UInt8>, in list: [StaticString]) -> Bool {
    list.contains { name.equals($0) }
  }

  /// Entries that Windows creates in directories it visits; the case depends on its version.
  private static let windowsFiles: [StaticString] = ["$RECYCLE.BIN", "Thumbs.db", "desktop.ini"]

  /// "Any files you don't want exposed to the user" ("File System Basics", iOS standard directories).
  private static let containerSupport: [StaticString] = ["Library", "tmp", "SystemData"]

  /// The UNIX directories that macOS hides at a volume root (`ls -lO /`). `home` belongs to the automounter there.
  private static let macDirectories: [StaticString] = [
    "bin", "cores", "dev", "etc", "home", "net", "opt", "private", "sbin", "tmp", "usr", "var",
  ]

  /// Support items at the root of a Macintosh volume of any system version: the list of the Finder look-alikes Quaqua and VAqua.
  private static let macRootNames: [StaticString] = [
    "AppleShare PDS", "Cleanup At Startup", "Desktop DB", "Desktop DF", "Desktop Folder", "Network",
    "Network Trash Folder", "Temporary Items", "TheFindByContentFolder", "TheVolumeSettingsFolder", "Trash",
    "automount", "installer.failurerequests", "mach", "mach.sym", "mach_kernel", "mach_kernel.ctfsys",
    "\u{3}\u{2}\u{1}Move&Rename",
  ]

  /// The UNIX directories of a Linux root. `home` is not among them: it contains the users' homes.
  private static let linuxDirectories: [StaticString] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "media", "mnt", "opt",
    "proc", "root", "run", "sbin", "snap", "srv", "sys", "tmp", "usr", "var",
  ]
}

extension Span<UInt8> {
  /// Whether the bytes equal `text`, optionally without regard to the case of ASCII letters.
  package func equals(_ text: StaticString, ignoringCase: Bool = false) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    return text.withUTF8Buffer { expected in
      for index in indices where self[index] != expected[index] {
        guard ignoringCase, asciiLowercase(self[index]) == asciiLowercase(expected[index]) else {
          return false
        }
      }
      return true
    }
  }
}
