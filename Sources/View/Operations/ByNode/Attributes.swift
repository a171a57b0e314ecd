import BackingTree
import Glibc
import SystemPackage

/// The attributes of a node for a reply to the kernel.
package struct VersionedAttributes {
  package var stat: stat
  /// The version of the directory that permits the kernel to cache the attributes; nil when it must not.
  package let version: DirectoryVersion?
}

extension View {
  /// The status of a node as the view shows it.
  package func attributes(_ id: NodeID) throws(Errno) -> stat {
    let link = id == NodeTable.root ? nil : nodes.link(of: id)
    let (status, _) = try status(of: id, at: link)
    guard let link, link.nodeKind != .plain else { return present(status) }
    let parent = try directory(link.parent)
    return try link.name.withPointer { (name) throws(Errno) in
      try present(status, nodeKind: link.nodeKind, name: name, in: parent, parent: link.parent)
    }
  }

  /// The status of a node as the view shows it, with a version if the kernel may cache it.
  package func versionedAttributes(_ id: NodeID) throws(Errno) -> VersionedAttributes {
    guard let link = nodes.link(of: id), link.nodeKind == .plain else {
      return VersionedAttributes(stat: try attributes(id), version: nil)
    }
    // A directory's attributes change with its contents, so its own watch reports them. The watch on the parent reports those of
    // other files.
    let watched = link.type == .directory ? id : link.parent
    let handle = try? directory(watched)
    let version: DirectoryVersion? = if let handle { cached.version(watched, handle) } else { nil }
    let (status, isInPlace) = try status(of: id, at: link, in: watched == id ? nil : handle)
    let attributes = present(status)
    guard let handle, isInPlace,
      watched == id || canCacheAttributes(of: id, attributes, nodeKind: .plain, in: handle)
    else {
      return VersionedAttributes(stat: attributes, version: nil)
    }
    return VersionedAttributes(stat: attributes, version: version)
  }

  /// The birth time of a node's file, of a package that of its directory; nil where the file system keeps none, and for a file
  /// that is gone.
  package func birthTime(of id: NodeID) -> timespec? {
    guard let located = try? locate(id) else { return nil }
    return try? BackingTree.birthTime(located.rawValue)
  }

  /// The backing status of a node, checked to be of the file that the node stands for, and whether the file is still where the
  /// node table has it.
  ///
  /// - Parameter parent: the directory that holds it, if the calling code has it open.
  /// - Throws: ESTALE when the file is gone, or when the node stands for a file of another type.
  func status(
    of id: NodeID, at link: NodeTable.Link?, in parent: DirectoryHandle? = nil
  ) throws(Errno) -> (status: stat, isInPlace: Bool) {
    if id == NodeTable.root { return (try source.root.directory.status(), true) }
    if let link {
      do throws(Errno) {
        let parent = if let parent { parent } else { try directory(link.parent) }
        let status = try link.name.withPointer { (name) throws(Errno) in try parent.latestStatus(name) }
        if link.matches(status) { return (status, true) }
      } catch {
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory {
          throw error
        }
      }
    }
    // The name is gone, or leads to another file now.
    let status = try statusWithoutName(of: id)
    // Attributes of another file type make the kernel mark the inode bad for good. (EIO, `fuse_make_bad`)
    guard FileType(mode: status.st_mode) == nodes.type(of: id) else { throw .staleNFSFileHandle }
    return (status, false)
  }

  /// The status of a file that its name does not lead to any more: from a descriptor that is still open, else as of the removal
  /// of the name.
  ///
  /// - Throws: ESTALE when there is neither.
  private func statusWithoutName(of id: NodeID) throws(Errno) -> stat {
    if let open = openNodes.file(of: id) { return try fileStatus(open.descriptor.rawValue) }
    if let handle = openHandle(of: id) { return try handle.directory.status() }
    return try unlinkedNodes.status(of: id)
  }

  /// The free space and the limits of the file system that holds a node.
  package func fileSystemStatus(_ id: NodeID) throws(Errno) -> statvfs {
    let located = try locate(id)
    var out = statvfs()
    try systemCall { fstatvfs(located.rawValue, &out) }
    return out
  }

  /// The target of a symlink, unchanged; of an alias, the path to its target in the view.
  package func symlinkTarget(_ id: NodeID) throws(Errno) -> [UInt8] {
    if let link = nodes.link(of: id), link.nodeKind == .alias {
      return try aliasText(of: link.name.name, in: link.parent, directory(link.parent))
    }
    let located = try locate(id)
    return try Directory(descriptor: located.rawValue).symlinkTarget("")
  }
}
