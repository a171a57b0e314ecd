import BackingTree
import CLinux
import DisplayNames
import Glibc
import MacMetadata
import Synchronization
import SystemPackage

/// The flags of an entry from its Finder info and DOS attributes.
struct FinderFlags {
  fileprivate(set) var isInvisible = false
  fileprivate(set) var hasBundle = false
  fileprivate(set) var hidesExtension = false
  fileprivate(set) var isAlias = false
  fileprivate(set) var isDOSHidden = false
  /// The directory of Samba's depot that holds the entry's Finder info, as a path relative to SOURCE; nil where there is none.
  fileprivate(set) var depotDirectory: [UInt8]?
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
  private let isNTFS = Atomic(false)
  private let directoriesToProbe: Atomic<Int>
  private let onFound = Guarded<@Sendable () -> Void>({})
  private let malformedMetadataLog: MalformedMetadataLog
  /// SOURCE; nil where it cannot be opened.
  let root: DirectoryHandle?

  init(options: ViewOptions, root: Directory, malformedMetadataLog: MalformedMetadataLog) {
    self.malformedMetadataLog = malformedMetadataLog
    self.root = Self.handle(of: root)
    isAutomatic = options.finderInfo == .auto
    let isExpected = options.extensions == .flag || [.macos, .ios, .icloud].contains(options.profile)
    isFound = Atomic(options.finderInfo == .on || options.finderInfo == .auto && isExpected)
    directoriesToProbe = Atomic(options.finderInfo == .auto && !isExpected ? 32 : 0)
    if options.finderInfo != .off { isNTFS.store(Self.isNTFS(root), ordering: .relaxed) }
    if isNTFS.load(ordering: .relaxed) { isFound.store(true, ordering: .relaxed) }
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

  // MARK: Detection

  /// Probes a directory that is about to be shown for metadata, if it is one of the first.
  func probe(directory: Directory) {
    guard directoriesToProbe.load(ordering: .relaxed) > 0,
      directoriesToProbe.subtract(1, ordering: .relaxed).oldValue > 0
    else { return }
    if Self.hasStore(ExtendedAttributes(of: directory.descriptor)) || directory.has(".AppleDouble") {
      return noteFound()
    }
    guard let readable = try? directory.openForReading() else { return }
    var left = 8
    var isFound = false
    try? forEachEntryWithPosition(of: readable.rawValue) { (entry, _) throws(Errno) in
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

  // MARK: Reading

  /// The flags of an entry. For an entry without any attribute this takes one system call.
  ///
  /// A malformed store is ignored, and the next store is read.
  func flags(of name: Name, in directory: Directory, sideFiles: SideFiles) -> FinderFlags {
    guard isPresent || !sideFiles.isEmpty else { return FinderFlags() }
    var flags = FinderFlags()
    var isInDepot = false
    let info = CName(name).withPointer { cName -> FinderInfo? in
      let attributes = ExtendedAttributes(of: cName, in: directory)
      var present = Present()
      if isPresent { try? attributes.forEachName { present.insert(Self.store($0)) } }
      flags.isDOSHidden = isDOSHidden(name, attributes, hasSambaAttribute: present.hasSambaAttribute)
      for store in FinderInfo.Store.allCases where present.stores & Self.bit(store) != 0 {
        let value = store.attribute.flatMap { attributes.value($0, limit: Self.largestValue) }
        if let info = FinderInfo.decode(store: store, bytes: value ?? []) { return info }
        malformedMetadataLog.noteIgnored(store.attribute ?? "", of: name)
      }
      isInDepot = present.isInDepot
      return nil
    }
    if isInDepot { flags.depotDirectory = depotPath(of: name, in: directory) }
    if let info = info ?? flags.depotDirectory.flatMap({ depotInfo(of: name, in: $0) })
      ?? sideFileInfo(of: name, in: directory, sideFiles)
    {
      flags.isInvisible = info.isInvisible
      flags.hasBundle = info.hasBundle
      flags.hidesExtension = info.hidesExtension
      flags.isAlias = info.has(.isAlias)
    }
    return flags
  }

  private func depotInfo(of name: Name, in streams: [UInt8]) -> FinderInfo? {
    guard let bytes = depotBytes(in: streams) else { return nil }
    let info = FinderInfo.decode(store: .sambaDepot, bytes: bytes)
    // A stream that was just created is still empty.
    if info == nil, !bytes.isEmpty {
      malformedMetadataLog.noteIgnored("stream \(SambaDepot.finderInfo)", of: name)
    }
    return info
  }

  /// Opens a directory below SOURCE that holds metadata of an entry elsewhere; nil when it cannot be opened.
  func open(beneathSource path: some Sequence<UInt8>) -> Descriptor? {
    Array(path).withCName { try? root?.directory.openBeneath($0, O_RDONLY | O_DIRECTORY) }
  }

  private func depotBytes(in streams: [UInt8]) -> [UInt8]? {
    Self.depotFile(in: streams).withCName { root?.directory.beginning(of: $0, limit: Self.largestValue) }
  }

  private static func depotFile(_ stream: String = SambaDepot.finderInfo, in streams: [UInt8]) -> [UInt8] {
    streams + Array("/\(stream)".utf8)
  }

  private func depotPath(of name: Name, in directory: Directory) -> [UInt8]? {
    CName(name).withPointer { try? directory.status($0) }.map(Self.depotPath)
  }

  static func depotPath(of file: stat) -> [UInt8] {
    SambaDepot.path(device: UInt64(file.st_dev), inode: UInt64(file.st_ino))
  }

  private func isDOSHidden(
    _ name: Name, _ attributes: borrowing ExtendedAttributes, hasSambaAttribute: Bool
  ) -> Bool {
    if hasSambaAttribute {
      let value = attributes.value(DOSAttributes.sambaAttribute, limit: Self.largestValue)
      if let parsed = value.flatMap(DOSAttributes.init(samba:)) { return parsed.contains(.hidden) }
      malformedMetadataLog.noteIgnored(DOSAttributes.sambaAttribute, of: name)
    }
    guard isNTFS.load(ordering: .relaxed) else { return false }
    return attributes.value(DOSAttributes.ntfsBigEndianAttribute, limit: 8)
      .flatMap(DOSAttributes.init(ntfsBigEndian:))?.contains(.hidden) ?? false
  }

  private func sideFileInfo(of name: Name, in directory: Directory, _ sideFiles: SideFiles) -> FinderInfo? {
    for path in Self.paths(of: name, sideFiles) {
      guard let bytes = path.withCName({ directory.beginning(of: $0, limit: Self.largestValue) }) else {
        continue
      }
      if let info = FinderInfo.decode(store: .appleDouble, bytes: bytes) { return info }
      if AppleDouble(bytes) == nil { malformedMetadataLog.noteIgnored("AppleDouble file", of: name) }
    }
    return nil
  }

  /// Whether the content of a file is AppleDouble, whatever its name.
  static func isAppleDouble(_ name: Name, in directory: Directory) -> Bool {
    CName(name).withPointer { AppleDouble.isAppleDouble(directory.beginning(of: $0, limit: 8) ?? []) }
  }

  /// Logs a malformed store, which is ignored.
  func noteIgnored(_ store: String, of name: Name) { malformedMetadataLog.noteIgnored(store, of: name) }

  // MARK: Writing

  /// Sets or clears a flag in the store that the entry has, or else in the plain one; the other bytes stay as they are.
  ///
  /// - Throws: EACCES when the client may not write the entry, and the errors of its store.
  func set(
    _ flag: FinderInfo.Flag, to isOn: Bool, of name: Name, in directory: Directory, client: Client
  ) throws(Errno) {
    // Setting attributes requires write permission on the file, which opening it with the client's credentials checks.
    let file = try CName(name).withPointer { (name) throws(Errno) in
      try client.impersonateWithGroups { () throws(Errno) in try directory.openRegular(name, O_WRONLY) }
    }
    let attributes = ExtendedAttributes(of: file.descriptor.rawValue)
    for store in FinderInfo.Store.allCases {
      guard let attribute = store.attribute,
        let value = attributes.value(attribute, limit: Self.largestValue),
        let changed = FinderInfo.setting(flag, to: isOn, store: store, in: value)
      else { continue }
      return try attributes.replace(attribute, value, with: changed)
    }
    var files: [(store: FinderInfo.Store, path: [UInt8], from: Directory)] = []
    if attributes.value(SambaDepot.marker, limit: 8) != nil, let root,
      let streams = depotPath(of: name, in: directory)
    {
      files.append((.sambaDepot, Self.depotFile(in: streams), root.directory))
    }
    files += Self.paths(of: name, [.appleDouble, .netatalk]).map { (.appleDouble, $0, directory) }
    for (store, path, directory) in files {
      guard let bytes = path.withCName({ directory.beginning(of: $0, limit: Self.largestValue) }),
        let changed = FinderInfo.setting(flag, to: isOn, store: store, in: bytes)
      else { continue }
      if changed == bytes { return }
      let sideFile = try path.withCName { (path) throws(Errno) in
        try client.impersonateWithGroups { () throws(Errno) in try directory.openRegular(path, O_WRONLY) }
      }
      return try changed.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(sideFile.descriptor.rawValue, bytes, at: 0)
      }
    }
    guard isOn, let attribute = FinderInfo.Store.plain.attribute else { return }
    try attributes.replace(attribute, [], with: FinderInfo.record(setting: flag))
  }

  // MARK: Stores

  /// The metadata to transfer when a file takes another's place: the attributes of all stores that the entry has, DOS
  /// attributes included; the streams in Samba's depot, under their names; and the side files, under their paths. The
  /// copies of the streams and the side files will belong to the client, so the client must be allowed to read the originals.
  func stored(of name: CName, in directory: Directory, client: Client) -> [Tunnel.Attribute] {
    func readable(_ path: [UInt8], in directory: Directory) -> [UInt8]? {
      let bytes: [UInt8]? = path.withCName { path in
        guard directory.has(path) else { return nil }
        return try? client.impersonateWithGroups { () throws(Errno) -> [UInt8] in
          guard let bytes = directory.beginning(of: path, limit: Tunnel.attributeLimit) else {
            throw .permissionDenied
          }
          return bytes
        }
      }
      return bytes.flatMap { $0.count < Tunnel.attributeLimit ? $0 : nil }
    }
    return name.withPointer { cName in
      let attributes = ExtendedAttributes(of: cName, in: directory)
      var fromSideFiles = Self.paths(of: name.name, [.appleDouble, .netatalk]).compactMap { path in
        readable(path, in: directory).flatMap {
          AppleDouble($0) == nil ? nil : Tunnel.Attribute(name: path, value: $0)
        }
      }
      if let path = fromSideFiles.last?.name, path.contains(UInt8(ascii: "/")),
        let opened = try? directory.subdirectory(".AppleDouble")
      {
        let files = Directory(descriptor: opened.rawValue)
        fromSideFiles += NetatalkAttributeFiles.suffixes(of: name.name, in: files).compactMap { suffix in
          readable(path + suffix, in: directory).map { Tunnel.Attribute(name: path + suffix, value: $0) }
        }
      }
      var stores: [[UInt8]] = []
      var isInDepot = false
      try? attributes.forEachName { attribute in
        let bytes = Array(UnsafeRawBufferPointer(start: attribute, count: strlen(attribute)))
        if case .depot = Self.store(attribute) {
          isInDepot = true
        } else if Self.store(attribute) != nil || DesktopAttribute.storage(bytes) != nil {
          stores.append(bytes)
        }
      }
      var result = stores.compactMap { store in
        store.withCName { attributes.value($0, limit: Tunnel.attributeLimit) }.map {
          Tunnel.Attribute(name: store, value: $0)
        }
      }
      if isInDepot, let root, let streams = depotPath(of: name.name, in: directory) {
        for stream in SambaDepot.itemStreams {
          guard let value = readable(Self.depotFile(stream, in: streams), in: root.directory) else {
            continue
          }
          result.append(Tunnel.Attribute(name: Array(stream.utf8), value: value))
        }
      }
      return result + fromSideFiles
    }
  }

  /// Adds the transferred metadata to a file, as far as it has none of its own. Where the backing file system refuses, the file
  /// stays without it.
  func restore(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, in directory: Directory, client: Client
  ) {
    let stored = ExtendedAttributes(of: file.rawValue)
    let streams = attributes.filter { $0.name.first == UInt8(ascii: ":") }
    if !streams.isEmpty { try? writeToDepot(streams, of: file, client) }
    // A list and the files that it names are one store: the file has its own, or gets this one.
    let hasList = attributes.lazy.compactMap { NetatalkAttributeFiles.list(at: $0.name) }.first
      .map { $0.withCName { directory.has($0) } }
    for attribute in attributes where attribute.name.first != UInt8(ascii: ":") {
      if hasList == true, NetatalkAttributeFiles.list(at: attribute.name) != nil { continue }
      if attribute.name.first == UInt8(ascii: ".") {
        try? writeSideFile(attribute.value, at: attribute.name, in: directory, client)
      } else {
        attribute.name.withCName { name in
          attribute.value.withUnsafeBytes { try? stored.set(name, $0, flags: CInt(1) /* XATTR_CREATE */) }
        }
      }
    }
  }

  private func writeSideFile(
    _ bytes: [UInt8], at path: [UInt8], in directory: Directory, _ client: Client
  ) throws(Errno) {
    let parts = path.split(separator: UInt8(ascii: "/")).map(Array.init)
    try client.impersonateWithGroups { () throws(Errno) in
      let folder = try (parts.count == 1 ? [UInt8(ascii: ".")] : parts[0]).withCName { (name) throws(Errno) in
        try directory.subdirectory(name)
      }
      try Self.create(parts[parts.count - 1], in: Directory(descriptor: folder.rawValue), holding: bytes)
    }
  }

  private static func create(_ name: [UInt8], in directory: Directory, holding bytes: [UInt8]) throws(Errno) {
    let file = try name.withCName { (name) throws(Errno) in
      try directory.open(name, O_WRONLY | O_CREAT | O_EXCL, mode: 0o644)
    }
    try bytes.withUnsafeBytesTyped { (bytes) throws(Errno) in try writeFully(file.rawValue, bytes, at: 0) }
  }

  /// Writes the streams with the client's credentials, as Samba does with those of the connected user.
  private func writeToDepot(
    _ attributes: [Tunnel.Attribute], of file: borrowing Descriptor, _ client: Client
  ) throws(Errno) {
    let stored = ExtendedAttributes(of: file.rawValue)
    guard let root, stored.value(SambaDepot.marker, limit: Self.largestValue) == nil else { return }
    let path = Self.depotPath(of: try fileStatus(file.rawValue)).split(separator: UInt8(ascii: "/"))
    try client.impersonateWithGroups { () throws(Errno) in
      var streams = try Array(path[0]).withCName { (name) throws(Errno) in try root.subdirectory(name) }
      for name in path.dropFirst() {
        streams = try Array(name).withCName { (name) throws(Errno) in
          let parent = Directory(descriptor: streams.rawValue)
          do throws(Errno) { try parent.makeDirectory(name, mode: 0o755) } catch {
            guard error == .fileExists else { throw error }
          }
          return try parent.subdirectory(name)
        }
      }
      let directory = Directory(descriptor: streams.rawValue)
      // The file lacks the marker attribute, so what is in the directory belonged to an earlier file with this inode number.
      let readable = try directory.openForReading()
      try forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in try directory.unlink(entry.cName) }
      for stream in attributes { try Self.create(stream.name, in: directory, holding: stream.value) }
    }
    try SambaDepot.mark.withUnsafeBytesTyped { (bytes) throws(Errno) in
      try stored.set(SambaDepot.marker, bytes, flags: 0)
    }
  }

  /// The number of bytes to read of a store: Finder info is at the beginning of each, and all but AppleDouble files are
  /// shorter.
  static let largestValue = 4096

  /// The attributes of an entry that are relevant here.
  private struct Present {
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

  private static func bit(_ store: FinderInfo.Store) -> UInt8 {
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

extension ExtendedAttributes {
  /// Writes a value unless it equals the old one.
  fileprivate borrowing func replace(_ name: String, _ old: [UInt8], with new: [UInt8]) throws(Errno) {
    if new == old { return }
    try new.withUnsafeBytesTyped { (bytes) throws(Errno) in try set(name, bytes, flags: 0) }
  }
}
