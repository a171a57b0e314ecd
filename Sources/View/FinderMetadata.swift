import BackingTree
import CFuse
import DisplayNames
import Glibc
import MacMetadata
import Synchronization
import SystemPackage

/// What Finder info and DOS attributes say of an entry.
struct FinderFlags {
  fileprivate(set) var isInvisible = false
  fileprivate(set) var hasBundle = false
  fileprivate(set) var hidesExtension = false
  fileprivate(set) var isDOSHidden = false
  /// A directory elsewhere in which what is said about the entry changes, as a path from SOURCE.
  fileprivate(set) var elsewhere: [UInt8]?
}

/// Reads and writes Finder info and DOS attributes in whichever stores a volume keeps them.
///
/// That costs a system call for each entry, and most volumes have none of it. Whether one does is found out once, by a
/// look at the first directories that are shown: a server or a Mac that keeps such metadata does so for everything it
/// writes. A program that sets some through the mount is believed too.
final class FinderMetadata: Sendable {
  /// Files beside an entry that may hold its Finder info.
  struct SideFiles: OptionSet {
    let rawValue: UInt8
    /// `._name`.
    static let appleDouble = SideFiles(rawValue: 1)
    /// `.AppleDouble/name`, netatalk 2's.
    static let netatalk = SideFiles(rawValue: 2)
    /// The entry is itself named as the companion of one that is there.
    static let ofSibling = SideFiles(rawValue: 4)
  }

  private let isFound: Atomic<Bool>
  private let isAutomatic: Bool
  private let isNTFS = Atomic(false)
  private let directoriesToLookAt: Atomic<Int>
  private let onFound = Guarded<@Sendable () -> Void>({})
  private let complaints: Complaints
  /// SOURCE; nil when no metadata is to be read.
  private let root: DirectoryHandle?

  init(options: ViewOptions, root: Directory, complaints: Complaints) {
    self.complaints = complaints
    self.root = options.finderInfo == .off ? nil : Self.handle(of: root)
    isAutomatic = options.finderInfo == .auto
    let isExpected = options.extensions == .flag || [.macos, .ios, .icloud].contains(options.profile)
    isFound = Atomic(options.finderInfo == .on || options.finderInfo == .auto && isExpected)
    directoriesToLookAt = Atomic(options.finderInfo == .auto && !isExpected ? 32 : 0)
    if options.finderInfo != .off { isNTFS.store(Self.isNTFS(root), ordering: .relaxed) }
    if isNTFS.load(ordering: .relaxed) { isFound.store(true, ordering: .relaxed) }
  }

  private static func handle(of root: Directory) -> DirectoryHandle? {
    guard let opened = try? root.open(".", dfs_O_PATH | dfs_O_DIRECTORY),
      let status = try? fileStatus(opened.rawValue)
    else { return nil }
    return DirectoryHandle(adopting: opened, identity: FileIdentity(status), covered: nil)
  }

  /// Whether the volume has any, as far as is known.
  var isThere: Bool { isFound.load(ordering: .relaxed) }

  /// - Parameter call: called once, when metadata is found after the view has begun to show entries.
  func whenFound(_ call: @escaping @Sendable () -> Void) { onFound.withLock { $0 = call } }

  // MARK: Finding out

  /// Looks for metadata in a directory that is about to be shown, if it is one of the first.
  func look(in directory: Directory) {
    guard directoriesToLookAt.load(ordering: .relaxed) > 0,
      directoriesToLookAt.subtract(1, ordering: .relaxed).oldValue > 0
    else { return }
    if Self.hasStore(ExtendedAttributes(of: directory.descriptor)) || directory.has(".AppleDouble") {
      return found()
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
    if isFound { found() }
  }

  /// Whether it is worth looking at an entry whose attributes have changed.
  var mayAppear: Bool { isAutomatic && !isThere }

  /// The attributes of an entry have changed in the backing tree.
  func look(at name: Name, in directory: Directory) {
    guard mayAppear else { return }
    if CName(name).withPointer({ Self.hasStore(ExtendedAttributes(of: $0, in: directory)) }) { found() }
  }

  /// netatalk 2 has begun to keep metadata.
  func hasNetatalkDirectory() { if mayAppear { found() } }

  /// Somebody sets an attribute through the mount.
  func isSet(_ attribute: UnsafePointer<CChar>) {
    if mayAppear, Self.store(attribute) != nil { found() }
  }

  private func found() {
    directoriesToLookAt.store(0, ordering: .relaxed)
    guard !isFound.exchange(true, ordering: .relaxed) else { return }
    onFound.withLock { $0 }()
  }

  private static func hasStore(_ attributes: borrowing ExtendedAttributes) -> Bool {
    var isThere = false
    try? attributes.forEachName { if store($0) != nil { isThere = true } }
    return isThere
  }

  /// ntfs-3g answers for every file and lists nothing.
  private static func isNTFS(_ root: Directory) -> Bool {
    ExtendedAttributes(of: root.descriptor).value(DOSAttributes.ntfsBigEndianAttribute, limit: 8) != nil
  }

  // MARK: Reading

  /// The flags of an entry. For one without any attribute that is one system call.
  ///
  /// What is malformed says nothing: the next store is asked.
  func flags(of name: Name, in directory: Directory, sideFiles: SideFiles) -> FinderFlags {
    guard isThere || !sideFiles.isEmpty else { return FinderFlags() }
    var flags = FinderFlags()
    var isInDepot = false
    let info = CName(name).withPointer { cName -> FinderInfo? in
      let attributes = ExtendedAttributes(of: cName, in: directory)
      var present = Present()
      if isThere { try? attributes.forEachName { present.insert(Self.store($0)) } }
      flags.isDOSHidden = isDOSHidden(name, attributes, hasSambaAttribute: present.hasSambaAttribute)
      for store in FinderInfo.Store.allCases where present.stores & Self.bit(store) != 0 {
        let value = store.attribute.flatMap { attributes.value($0, limit: Self.largestValue) }
        if let info = FinderInfo.decode(store: store, bytes: value ?? []) { return info }
        complaints.ignored(store.attribute ?? "", of: name)
      }
      isInDepot = present.isInDepot
      return nil
    }
    if isInDepot { flags.elsewhere = depotPath(of: name, in: directory) }
    if let info = info ?? flags.elsewhere.flatMap({ depotInfo(of: name, in: $0) })
      ?? sideFileInfo(of: name, in: directory, sideFiles)
    {
      flags.isInvisible = info.isInvisible
      flags.hasBundle = info.hasBundle
      flags.hidesExtension = info.hidesExtension
    }
    return flags
  }

  private func depotInfo(of name: Name, in streams: [UInt8]) -> FinderInfo? {
    guard let bytes = depotBytes(in: streams) else { return nil }
    let info = FinderInfo.decode(store: .sambaDepot, bytes: bytes)
    // One that was just made has yet to be written.
    if info == nil, !bytes.isEmpty { complaints.ignored("stream \(SambaDepot.finderInfo)", of: name) }
    return info
  }

  /// A directory below SOURCE that tells of an entry elsewhere; nil when it is not there.
  func open(beneathSource path: some Sequence<UInt8>) -> Descriptor? {
    Array(path).withCName { try? root?.directory.openBeneath($0, O_RDONLY | O_DIRECTORY) }
  }

  private func depotBytes(in streams: [UInt8]) -> [UInt8]? {
    Self.depotFile(in: streams).withCName { root?.directory.beginning(of: $0, limit: Self.largestValue) }
  }

  private static func depotFile(in streams: [UInt8]) -> [UInt8] {
    streams + Array("/\(SambaDepot.finderInfo)".utf8)
  }

  private func depotPath(of name: Name, in directory: Directory) -> [UInt8]? {
    CName(name).withPointer { try? directory.status($0) }.map(Self.depotPath)
  }

  private static func depotPath(of file: stat) -> [UInt8] {
    SambaDepot.path(device: UInt64(file.st_dev), inode: UInt64(file.st_ino))
  }

  private func isDOSHidden(
    _ name: Name, _ attributes: borrowing ExtendedAttributes, hasSambaAttribute: Bool
  ) -> Bool {
    if hasSambaAttribute {
      let value = attributes.value(DOSAttributes.sambaAttribute, limit: Self.largestValue)
      if let parsed = value.flatMap(DOSAttributes.init(samba:)) { return parsed.contains(.hidden) }
      complaints.ignored(DOSAttributes.sambaAttribute, of: name)
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
      if AppleDouble(bytes) == nil { complaints.ignored("AppleDouble file", of: name) }
    }
    return nil
  }

  /// Whether a file is AppleDouble, whatever its name.
  static func isAppleDouble(_ name: Name, in directory: Directory) -> Bool {
    CName(name).withPointer { AppleDouble.isAppleDouble(directory.beginning(of: $0, limit: 8) ?? []) }
  }

  // MARK: Writing

  /// Sets or clears a flag in the store that the entry has, else in the plain one; other bytes stay as they are.
  ///
  /// - Throws: EACCES when the caller may not write the entry, and the errors of its store.
  func set(
    _ flag: FinderInfo.Flag, to isOn: Bool, of name: Name, in directory: Directory, caller: Caller
  ) throws(Errno) {
    // Attributes need permission to write the file, which opening it tells.
    let file = try CName(name).withPointer { (name) throws(Errno) in
      try caller.actAsMember { () throws(Errno) in try directory.openRegular(name, O_WRONLY) }
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
        try caller.actAsMember { () throws(Errno) in try directory.openRegular(path, O_WRONLY) }
      }
      return try changed.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(sideFile.descriptor.rawValue, bytes, at: 0)
      }
    }
    guard isOn, let attribute = FinderInfo.Store.plain.attribute else { return }
    try attributes.replace(attribute, [], with: FinderInfo.record(setting: flag))
  }

  // MARK: Stores

  /// The attributes of all stores that an entry has, DOS attributes included: they ride along when a file takes another's
  /// place. So do the stream of a depot, under the stream's name, and what lies beside the entry, under its path: files
  /// that will be the caller's, who must be allowed to read them.
  func stored(of name: CName, in directory: Directory, caller: Caller) -> [Tunnel.Attribute] {
    func readable(_ path: [UInt8], in directory: Directory) -> [UInt8]? {
      let bytes: [UInt8]? = path.withCName { path in
        guard directory.has(path) else { return nil }
        return try? caller.actAsMember { () throws(Errno) -> [UInt8] in
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
      let beside = Self.paths(of: name.name, [.appleDouble, .netatalk]).compactMap { path in
        readable(path, in: directory).flatMap {
          AppleDouble($0) == nil ? nil : Tunnel.Attribute(name: path, value: $0)
        }
      }
      guard Self.hasStore(attributes) else { return beside }
      let stores = FinderInfo.Store.allCases.compactMap(\.attribute) + [DOSAttributes.sambaAttribute]
      var result = stores.compactMap { store in
        attributes.value(store, limit: Tunnel.attributeLimit).map {
          Tunnel.Attribute(name: Array(store.utf8), value: $0)
        }
      }
      if attributes.value(SambaDepot.marker, limit: Self.largestValue) != nil,
        let root, let streams = depotPath(of: name.name, in: directory),
        let value = readable(Self.depotFile(in: streams), in: root.directory)
      {
        result.append(Tunnel.Attribute(name: Array(SambaDepot.finderInfo.utf8), value: value))
      }
      return result + beside
    }
  }

  /// Gives a file that has none of them what rode along. A backing file system that refuses keeps the file.
  func restore(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, in directory: Directory, caller: Caller
  ) {
    let stored = ExtendedAttributes(of: file.rawValue)
    for attribute in attributes {
      if attribute.name.elementsEqual(SambaDepot.finderInfo.utf8) {
        try? putIntoDepot(attribute.value, of: file, caller)
      } else if attribute.name.first == UInt8(ascii: ".") {
        try? putBeside(attribute.value, at: attribute.name, in: directory, caller)
      } else {
        attribute.name.withCName { name in
          attribute.value.withUnsafeBytes { try? stored.set(name, $0, flags: CInt(1) /* XATTR_CREATE */) }
        }
      }
    }
  }

  private func putBeside(
    _ bytes: [UInt8], at path: [UInt8], in directory: Directory, _ caller: Caller
  ) throws(Errno) {
    let parts = path.split(separator: UInt8(ascii: "/")).map(Array.init)
    try caller.actAsMember { () throws(Errno) in
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

  /// Writes the stream as Samba does, as the user who connects.
  private func putIntoDepot(_ stream: [UInt8], of file: borrowing Descriptor, _ caller: Caller) throws(Errno)
  {
    let attributes = ExtendedAttributes(of: file.rawValue)
    guard let root, attributes.value(SambaDepot.marker, limit: Self.largestValue) == nil else { return }
    let path = Self.depotPath(of: try fileStatus(file.rawValue)).split(separator: UInt8(ascii: "/"))
    try caller.actAsMember { () throws(Errno) in
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
      // Without the mark, what is there belonged to an earlier file with this number.
      let readable = try directory.openForReading()
      try forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in try directory.unlink(entry.cName) }
      try Self.create(Array(SambaDepot.finderInfo.utf8), in: directory, holding: stream)
    }
    try SambaDepot.mark.withUnsafeBytesTyped { (bytes) throws(Errno) in
      try attributes.set(SambaDepot.marker, bytes, flags: 0)
    }
  }

  /// Finder info is at the beginning of every store, and all but AppleDouble files are shorter.
  private static let largestValue = 4096

  /// The attributes that an entry has, of those that matter.
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

  private enum Attribute {
    case finderInfo(FinderInfo.Store)
    case samba
    /// Marks that there are streams in Samba's depot.
    case depot
  }

  private static func bit(_ store: FinderInfo.Store) -> UInt8 {
    1 << UInt8(FinderInfo.Store.allCases.firstIndex(of: store) ?? 0)
  }

  /// Which store an attribute is.
  private static func store(_ attribute: UnsafePointer<CChar>) -> Attribute? {
    if strcmp(attribute, DOSAttributes.sambaAttribute) == 0 { return .samba }
    if strcmp(attribute, SambaDepot.marker) == 0 { return .depot }
    for store in FinderInfo.Store.allCases {
      if let name = store.attribute, strcmp(attribute, name) == 0 { return .finderInfo(store) }
    }
    return nil
  }

  /// The side files that an entry may have, from its directory on.
  private static func paths(of name: Name, _ sideFiles: SideFiles) -> [[UInt8]] {
    var paths: [[UInt8]] = []
    if sideFiles.contains(.appleDouble), let companion = name.companion { paths.append(companion.bytes) }
    if sideFiles.contains(.netatalk) {
      paths.append(Array(".AppleDouble/".utf8) + name.bytes)
      // Of a directory it is kept inside.
      paths.append(name.bytes + Array("/.AppleDouble/.Parent".utf8))
    }
    return paths
  }
}

extension ExtendedAttributes {
  /// Writes a value unless it is what is there.
  fileprivate borrowing func replace(_ name: String, _ old: [UInt8], with new: [UInt8]) throws(Errno) {
    if new == old { return }
    try new.withUnsafeBytesTyped { (bytes) throws(Errno) in try set(name, bytes, flags: 0) }
  }
}
