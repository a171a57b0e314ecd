import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Reads the flags of an entry from the first of its stores that is well-formed.
extension FinderMetadata {
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
        noteIgnored(store.attribute ?? "", of: name)
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
      noteIgnored("stream \(SambaDepot.finderInfo)", of: name)
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

  static func depotFile(_ stream: String = SambaDepot.finderInfo, in streams: [UInt8]) -> [UInt8] {
    streams + Array("/\(stream)".utf8)
  }

  func depotPath(of name: Name, in directory: Directory) -> [UInt8]? {
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
      noteIgnored(DOSAttributes.sambaAttribute, of: name)
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
      if AppleDouble(bytes) == nil { noteIgnored("AppleDouble file", of: name) }
    }
    return nil
  }

  /// Whether the content of a file is AppleDouble, whatever its name.
  static func isAppleDouble(_ name: Name, in directory: Directory) -> Bool {
    CName(name).withPointer { AppleDouble.isAppleDouble(directory.beginning(of: $0, limit: 8) ?? []) }
  }
}
