import BackingTree
import CLinux
import DisplayNames
import Glibc
import MacMetadata
import Synchronization
import SystemPackage

/// The flags of an entry from its Finder info and DOS attributes.
struct FinderFlags {
  var isInvisible = false
  var hasBundle = false
  var hidesExtension = false
  var isAlias = false
  var isDOSHidden = false
  /// The directory of Samba's depot that holds the entry's Finder info, as a path relative to SOURCE; nil where there is none.
  var depotDirectory: [UInt8]?
}

/// Reads and writes Finder info and DOS attributes in any of the stores in which a volume keeps them.
///
/// Reading them costs a system call per entry, and most volumes have none. Whether a volume has any is determined once, by a
/// probe of the first directories that are shown: a server or a Mac that keeps such metadata does so for everything it writes.
/// An attribute that a client sets through the mount counts as well, as does one that appears in the backing tree.
final class FinderMetadata: Sendable {
  /// Files beside an entry that may hold its Finder info.
  struct SideFiles: OptionSet {
    let rawValue: UInt8
    /// `._name`.
    static let appleDouble = SideFiles(rawValue: 1)
    /// `.AppleDouble/name` of netatalk.
    static let netatalk = SideFiles(rawValue: 2)
    /// The entry's own name is that of the AppleDouble sidecar of an existing entry.
    static let ofSibling = SideFiles(rawValue: 4)
  }

  private let isFound: Atomic<Bool>
  private let isAutomatic: Bool
  let isNTFS = Atomic(false)
  private let directoriesToProbe: Atomic<Int>
  private let onFound = Guarded<@Sendable () -> Void>({})
  private let malformedMetadataLog: MalformedMetadataLog
  /// SOURCE; nil where it cannot be opened.
  let root: DirectoryHandle?

  /// - Parameter isFound: whether the volume is known to have such metadata.
  init(options: ViewOptions, root: Directory, malformedMetadataLog: MalformedMetadataLog, isFound: Bool) {
    self.malformedMetadataLog = malformedMetadataLog
    self.root = Self.handle(of: root)
    isAutomatic = options.finderInfo == .auto
    let isExpected =
      isFound || options.extensions == .flag || [.macos, .ios, .icloud].contains(options.profile)
    self.isFound = Atomic(options.finderInfo == .on || options.finderInfo == .auto && isExpected)
    directoriesToProbe = Atomic(options.finderInfo == .auto && !isExpected ? 32 : 0)
    if options.finderInfo != .off { isNTFS.store(Self.isNTFS(root), ordering: .relaxed) }
    if isNTFS.load(ordering: .relaxed) { self.isFound.store(true, ordering: .relaxed) }
  }

  private static func handle(of root: Directory) -> DirectoryHandle? {
    guard let opened = try? root.open(".", dfs_O_PATH | dfs_O_DIRECTORY),
      let status = try? fileStatus(opened.rawValue)
    else { return nil }
    return DirectoryHandle(adopting: opened, identity: FileIdentity(status), covered: nil)
  }

  /// Whether the volume has such metadata, as far as is known.
  var isPresent: Bool { isFound.load(ordering: .relaxed) }

  /// - Parameter call: called once, when metadata is found after the view has begun to show entries.
  func onFirstFound(_ call: @escaping @Sendable () -> Void) { onFound.withLock { $0 = call } }

  /// Logs a malformed store, which is ignored.
  func noteIgnored(_ store: String, of name: Name) { malformedMetadataLog.noteIgnored(store, of: name) }

  // MARK: Detection

  /// How many entries of a directory are probed.
  private static let probedEntries = 8
  /// The size of a record of getdents64(2) with a name of 255 bytes (NAME_MAX), in bytes.
  private static let largestDirectoryEntry = 280

  /// Probes a directory that is about to be shown for metadata, if it is one of the first.
  func probe(directory: Directory) {
    guard directoriesToProbe.load(ordering: .relaxed) > 0,
      directoriesToProbe.subtract(1, ordering: .relaxed).oldValue > 0
    else { return }
    if Self.hasStore(ExtendedAttributes(of: directory.descriptor)) || directory.has(".AppleDouble") {
      return noteFound()
    }
    guard let readable = try? directory.openForReading() else { return }
    var left = Self.probedEntries
    var isFound = false
    try? forEachEntryWithPosition(
      of: readable.rawValue, bufferSize: Self.probedEntries * Self.largestDirectoryEntry
    ) { (entry, _) throws(Errno) in
      isFound =
        entry.name.starts(with: "._".utf8)
        ? Self.isAppleDouble(Name(entry.name), in: directory)
        : Self.hasStore(ExtendedAttributes(of: entry.cName, in: directory))
      left -= 1
      return left > 0 && !isFound
    }
    if isFound { noteFound() }
  }

  /// Whether to probe an entry after a change of its attributes.
  var mayAppear: Bool { isAutomatic && !isPresent }

  /// Probes an entry after a change of its attributes in the backing tree.
  func probe(_ name: Name, in directory: Directory) {
    guard mayAppear else { return }
    if CName(name).withPointer({ Self.hasStore(ExtendedAttributes(of: $0, in: directory)) }) { noteFound() }
  }

  /// Called when netatalk has begun to keep metadata in a directory.
  func noteNetatalkDirectory() { if mayAppear { noteFound() } }

  /// Called when a client sets an attribute through the mount.
  func noteSet(_ attribute: UnsafePointer<CChar>) {
    if mayAppear, Self.store(attribute) != nil { noteFound() }
  }

  private func noteFound() {
    directoriesToProbe.store(0, ordering: .relaxed)
    guard !isFound.exchange(true, ordering: .relaxed) else { return }
    onFound.withLock { $0 }()
  }

  private static func hasStore(_ attributes: borrowing ExtendedAttributes) -> Bool {
    var isPresent = false
    try? attributes.forEachName { if store($0) != nil { isPresent = true } }
    return isPresent
  }

  /// ntfs-3g returns this attribute for every file, but lists no attributes.
  private static func isNTFS(_ root: Directory) -> Bool {
    ExtendedAttributes(of: root.descriptor).value(DOSAttributes.ntfsBigEndianAttribute, limit: 8) != nil
  }

  /// The number of bytes to read of a store: Finder info is at the beginning of each, and all but AppleDouble files are
  /// shorter.
  static let largestValue = 4096

  /// The attributes of an entry that are relevant here.
  struct Present {
    var stores: UInt8 = 0
    var hasSambaAttribute = false
    var isInDepot = false

    mutating func insert(_ found: Attribute?) {
      switch found {
      case .finderInfo(let store): stores |= FinderMetadata.bit(store)
      case .samba: hasSambaAttribute = true
      case .depot: isInDepot = true
      case nil: break
      }
    }
  }

  enum Attribute {
    case finderInfo(FinderInfo.Store)
    case samba
    /// The marker of a file that has streams in Samba's depot.
    case depot
  }

  static func bit(_ store: FinderInfo.Store) -> UInt8 {
    1 << UInt8(FinderInfo.Store.allCases.firstIndex(of: store) ?? 0)
  }

  /// The store that an attribute belongs to; nil for any other attribute.
  static func store(_ attribute: UnsafePointer<CChar>) -> Attribute? {
    if strcmp(attribute, DOSAttributes.sambaAttribute) == 0 { return .samba }
    if strcmp(attribute, SambaDepot.marker) == 0 { return .depot }
    for store in FinderInfo.Store.allCases {
      if let name = store.attribute, strcmp(attribute, name) == 0 { return .finderInfo(store) }
    }
    return nil
  }

  /// The side files that an entry may have, where its directory is not read.
  var possibleSideFiles: SideFiles { isPresent ? [.appleDouble, .netatalk] : .appleDouble }

  /// The paths of the side files that an entry may have, relative to its directory.
  static func paths(of name: Name, _ sideFiles: SideFiles) -> [[UInt8]] {
    var paths: [[UInt8]] = []
    if sideFiles.contains(.appleDouble), let sidecar = name.sidecar { paths.append(sidecar.bytes) }
    if sideFiles.contains(.netatalk) {
      paths.append(Array(".AppleDouble/".utf8) + name.bytes)
      // A directory's side file is inside that directory.
      paths.append(name.bytes + Array("/.AppleDouble/.Parent".utf8))
    }
    return paths
  }
}
