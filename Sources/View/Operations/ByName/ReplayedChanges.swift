import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What replay threads get for the names of a change that was made behind the mount, and what the view records of it.
extension View {
  /// The entry of a name that is gone from the view. The nlookup of its node rises by one. This is the node that the kernel
  /// knows by that name, or else a node that stands for no file.
  package func entryOfVanished(_ item: ListingEntry) -> Entry {
    let attributes = attributes(ofGone: item.type, inodeNumber(item.identity, item.nodeKind))
    if let gone = goneNode(of: item), let node = nodes.lookUp(gone, of: item.identity) {
      // The kernel takes the size for the file's, and a client may still read the file through an open descriptor.
      let open = openNodes.file(of: gone).flatMap { try? fileStatus($0.descriptor.rawValue) }
      return Entry(node, open.map { present($0) } ?? attributes)
    }
    let node = CName(item.realName).withPointer {
      nodes.lookupOrInsert(
        LookedUpFile(
          identity: Self.noFile, type: item.backingType, nodeKind: item.nodeKind, parent: item.directory,
          name: $0),
        .linked)!
    }
    return Entry(node, attributes)
  }

  /// The entry of a directory that was removed in the backing tree and that the kernel still knows. The nlookup of its node rises
  /// by one.
  ///
  /// - Throws: ESTALE unless the view has the directory open still, without a link: a directory that exists, perhaps with the
  ///   same number, must not get these attributes.
  package func entryOfRemovedDirectory(_ id: NodeID) throws(Errno) -> Entry {
    guard let handle = directories.views.view(of: id)?.handle,
      try handle.directory.status().st_nlink == 0, let node = nodes.lookUp(id, of: handle.identity)
    else { throw .staleNFSFileHandle }
    return Entry(node, attributes(ofGone: .directory, inodeNumber(handle.identity, .plain)))
  }

  private func attributes(ofGone type: FileType, _ inode: ino_t) -> stat {
    var attributes = stat()
    attributes.st_mode = type.modeBits | 0o700
    attributes.st_nlink = 1
    attributes.st_uid = geteuid()
    attributes.st_gid = getegid()
    attributes.st_ino = inode
    return attributes
  }

  /// The entry of a file that another process has renamed in the backing tree. The nlookup of its node rises by one. The kernel
  /// knows the node, and is to rename it too. Until it has done that, a client that came to the node by the old name must not
  /// be led to the new one.
  package func entryOfMoved(_ item: ListingEntry) throws(Errno) -> Entry {
    let handle = try directory(item.directory)
    return try CName(item.name).withPointer { (name) throws(Errno) in
      if let found = try? find(item.directory, handle, name), FileIdentity(found.status) == item.identity {
        return try entry(found, in: item.directory, identityMatch: .moving)
      }
      // It has been renamed again, which is replayed next. By another reply the kernel would lose the dentry of a directory, but
      // the size in this one would be taken for a file's.
      guard let known = directoryNode(of: item), let node = nodes.lookUp(known, of: item.identity) else {
        throw .staleNFSFileHandle
      }
      let open = openDirectory(known).flatMap { try? $0.directory.status() }
      let number = inodeNumber(item.identity, item.nodeKind)
      return Entry(node, open.map { present($0) } ?? attributes(ofGone: .directory, number))
    }
  }

  /// Records that the kernel is replaying a rename that another process made in the backing tree.
  ///
  /// - Parameter yields: whether the rename gives way to a client that got ESTALE for the file, after an earlier rename of it, and
  ///   is about to try again. One more rename that is replayed meanwhile would fail its call.
  /// - Returns: the rename, to be released when the system call that replays it has returned.
  /// - Throws: EAGAIN when it gives way.
  package func beginReplayedRename(
    _ old: ListingEntry, to new: ListingEntry, yields: Bool
  ) throws(Errno) -> ReplayedRename {
    guard let rename = walks.turns.beginRename(of: new.identity, yields: yields) else {
      throw .resourceTemporarilyUnavailable
    }
    // Must come first: a request of a client that came by the old name must not find the node moved and go on.
    if let node = nodes.node(of: new.identity, nodeKind: new.nodeKind) {
      walks.moved.noteMove(of: node, isReplayed: true)
      // Nor may a client that knows the node by its new name come to it by the old one, before the kernel has moved the dentry.
      invalidateBeforeNextWalk([
        StaleName(old.name, in: old.directory, mayBeDirectory: true, node: node)
      ])
    }
    nodes.didMove(
      new.identity, nodeKind: new.nodeKind, from: (old.directory, CName(old.realName)),
      to: (new.directory, CName(new.realName)))
    if new.backingType == .directory { refreshViews(inMoved: new.identity) }
    return rename
  }

  /// The node of a file that the kernel knows by that name alone, if the file is gone. A file that is only hidden now, or is at
  /// another place, is not gone. Nor is an open file that has another name: a client that comes by the lost name must still meet
  /// the locks and mappings of the processes that have the file open.
  private func goneNode(of item: ListingEntry) -> NodeID? {
    if item.isElsewhere { return nil }
    // The inode number may belong to another file by now.
    guard let node = nodes.node(of: item.identity, nodeKind: item.nodeKind),
      let link = nodes.link(of: node), link.type == item.backingType,
      link.parent == item.directory, link.name.name == item.realName
    else { return nil }
    if holds(link.parent, link.name, link) { return nil }
    if item.type == .directory { return isRemoved(item, node) ? node : nil }
    if isReachedByAnotherName(node, link) { return nil }
    guard let open = openNodes.file(of: node), let status = try? fileStatus(open.descriptor.rawValue) else {
      return node
    }
    return status.st_nlink == 0 ? node : nil
  }

  /// Whether a file that has lost the name in use has another known one, which is in use from now on. (hard links)
  private func isReachedByAnotherName(_ node: NodeID, _ lost: NodeTable.Link) -> Bool {
    for other in nodes.otherLinks(of: node) where holds(NodeID(other.parent), other.name, lost) {
      // A client that came by the lost name must not be led to the other one.
      walks.moved.noteMove(of: node)
      nodes.leaveLink(of: node, for: other)
      return true
    }
    return false
  }

  /// Whether a directory was removed, and not moved by another process to a directory that has no view. In a directory that the
  /// kernel takes for removed, every look-up and every creation fails. (S_DEAD)
  private func isRemoved(_ item: ListingEntry, _ node: NodeID) -> Bool {
    // On overlayfs, the links of a removed directory are those that it has in the lower layer.
    if !source.fileSystem.isOverlay, let handle = openDirectory(node) {
      do throws(Errno) { return try handle.directory.status().st_nlink == 0 } catch {
        return error == .staleNFSFileHandle
      }
    }
    return !item.wasMoved
  }

  /// The directory of a node, wherever it is now, if the view has it open.
  private func openDirectory(_ node: NodeID) -> DirectoryHandle? {
    guard let handle = directories.views.view(of: node)?.handle ?? openHandle(of: node),
      nodes.hasIdentity(node, handle.identity)
    else { return nil }
    return handle
  }

  /// The node by which the kernel may know a directory; nil for any other entry.
  package func directoryNode(of item: ListingEntry) -> NodeID? {
    item.type == .directory ? nodes.node(of: item.identity) : nil
  }

  /// The real name that a directory has got in the directory that it is in, for an entry that another process has renamed there;
  /// nil if the kernel does not know the directory, or it is somewhere else.
  package func currentRealName(of item: ListingEntry) -> Name? {
    guard item.wasMoved, item.backingType == .directory, nodes.node(of: item.identity) != nil,
      let view = currentView(of: item.directory)
    else { return nil }
    let name = try? view.withCurrent { (projection) -> Name? in
      let slot = (0..<projection.slotLimit).first {
        guard let summary = projection.summary(at: $0) else { return false }
        return summary.inode == item.identity.inode && summary.entryType == DT_DIR
      }
      return slot.map { projection.realName(at: $0) }
    }
    return name.flatMap { $0 == item.realName ? nil : $0 }
  }

  /// The nlookup of a node.
  package func lookupCount(of id: NodeID) -> UInt64 { nodes.lookupCount(of: id) }

  /// Orphans the node of a file that is gone from the view: a new file with its inode number gets another node. The kernel may
  /// know that new file by now, under the same name or another one.
  package func orphanVanished(_ item: ListingEntry) {
    if let gone = goneNode(of: item) { nodes.orphan(gone, of: item.identity) }
    _ = CName(item.realName).withPointer {
      nodes.didRemove(Self.noFile, nodeKind: item.nodeKind, from: item.directory, name: $0, isLast: true)
    }
  }

  /// No file has this identity.
  private static let noFile = FileIdentity(device: .max, inode: .max)
}
