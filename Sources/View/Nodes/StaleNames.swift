import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Operations that a client requested by name and the kernel sent by node, before the kernel was notified that another process
/// removed the name or gave it to another file.
///
/// A program that writes by a name, or creates a file by that name if there is none, must not reach the file that had the name
/// before: the written data could not be found again, or would overwrite another file. On ESTALE the kernel looks up every name
/// of the path again and retries once.
extension View {
  /// Whether a file that is found somewhere else than the kernel knows it is the same file as its node. The kernel may still
  /// trust the old name.
  ///
  /// If the file is gone from its old place, the file found may be a different one: inode numbers are reused, except those of
  /// open files.
  func identityMatch(of status: stat, _ nodeKind: NodeKind) -> NodeTable.IdentityMatch {
    guard let node = nodes.node(of: FileIdentity(status), nodeKind: nodeKind) else { return .another }
    guard let known = nodes.link(of: node) else {
      // A file that was made without a name (O_TMPFILE) is gone with its last descriptor, unless it has got a name.
      return openNodes.file(of: node) == nil ? .another : .moved
    }
    if status.st_nlink > 1, !known.isEntryCacheable, !known.areOtherLinksCacheable { return .linked }
    let isOpen = openNodes.file(of: node) != nil
    guard isOpen || status.st_nlink > 1 else { return .another }
    _ = hasLostOtherLink(node, known)
    if status.st_nlink > 1, holds(known.parent, known.name, known) { return .linked }
    guard isOpen else { return .another }
    walks.moved.noteMove(of: node)
    invalidateCachedName(known.name, in: known.parent, of: node)
    return .moved
  }

  /// Called before the node table records that a file was moved through the mount. The kernel may have resolved the old name to
  /// the node of another file, and now takes that node for the file at the new name. It may also know the moved file by a name
  /// that the file no longer had.
  func correctNames(
    of moved: stat, from old: (parent: NodeID, name: CName), to new: (parent: NodeID, name: CName)
  ) {
    let isDirectory = FileType(mode: moved.st_mode) == .directory
    let identity = FileIdentity(moved)
    if let taken = old.name.withPointer({ nodes.node(at: old.parent, $0, nodeKind: .plain) }),
      isDirectory
        ? nodes.hasIdentity(taken, identity) && nodes.knowsRemovedDirectory(of: moved)
        : !nodes.hasIdentity(taken, identity)
    {
      orphanUnlessOpen(taken)
      invalidateBeforeNextWalk(new.name.name, in: new.parent)
    }
    if isDirectory { return }
    guard let node = nodes.node(of: identity), let known = nodes.link(of: node),
      known.parent != old.parent || !old.name.withPointer({ known.name.equals($0) })
    else { return }
    switch identityMatch(of: moved, .plain) {
    case .another: orphanUnlessOpen(node)
    case .moved: nodes.didMove(identity, nodeKind: .plain, from: (known.parent, known.name), to: old)
    default: break
    }
  }

  /// Called before a directory is changed. A client that reached the directory by a name which the directory has lost in the
  /// backing tree would change another directory than the one it named.
  ///
  /// - Throws: ESTALE, upon which the kernel walks the path again. A client that works in the directory, or has it open, retries
  ///   without a lookup and is served.
  func refuseIfMoved(_ id: NodeID, _ client: Client) throws(Errno) {
    guard mayHaveMoved(id, client) else { return }
    if !walks.retries.isRetry(id, by: client.thread) { try refuse([id], client) }
  }

  /// The same for an operation with two paths. The kernel walks both paths again but retries only once, so one refusal covers
  /// both directories, also the one that moves between the refusal and the retry.
  func refuseIfMoved(_ id: NodeID, _ other: NodeID, _ client: Client) throws(Errno) {
    if let refused = walks.renameRetries.take(by: client.thread), refused == [id, other] { return }
    if !mayHaveMoved(id, client), other == id || !mayHaveMoved(other, client) { return }
    walks.renameRetries.noteRefusal(of: [id, other], by: client.thread)
    try refuse([id, other], client)
  }

  private func mayHaveMoved(_ id: NodeID, _ client: Client) -> Bool {
    guard id != NodeTable.root, let link = nodes.link(of: id) else { return false }
    return !holds(link.parent, link.name, link)
      || mayHaveWalkedByOldName(id, client)
  }

  /// Whether a request for the node comes from a client that used a name which the node no longer has, as far as can be known.
  ///
  /// - Parameter readsOnly: whether the request only reads attributes.
  func mayHaveWalkedByOldName(_ id: NodeID, _ client: Client, readsOnly: Bool = false) -> Bool {
    if walks.moved.mayHaveWalkedByOldName(id, client.thread, readsOnly: readsOnly) { return true }
    if !readsOnly { walks.turns.noteService(of: client.thread) }
    return false
  }

  /// Refuses a request that may have come by names which these nodes no longer have: the kernel walks the path again, once.
  /// Records that, or the request could be refused a second time, which fails it (``PathWalks/noteRefusal(of:by:)``).
  ///
  /// - Throws: ESTALE, after 100 ms at most.
  package func refuse(_ ids: [NodeID], _ client: Client) throws(Errno) -> Never {
    walks.noteRefusal(of: ids.compactMap { id in nodes.identity(of: id).map { (id, $0) } }, by: client.thread)
    throw .staleNFSFileHandle
  }

  /// Called before a node's attributes are read.
  ///
  /// - Throws: ESTALE when the client may have used a name that the kernel should have dropped. The caller records that, as it
  ///   does where the file has left the name by then (`refuse`).
  package func refuseStaleName(of id: NodeID, _ client: Client) throws(Errno) {
    guard mayHaveWalkedByOldName(id, client, readsOnly: true) || isNoLongerPackage(id),
      !mayReferToOpenFile(id, client), !walks.retries.isRetry(id, by: client.thread)
    else { return }
    throw .staleNFSFileHandle
  }

  /// Whether a node is the file of a package that is shown as a directory since a rename. The kernel has moved the dentry of the
  /// file to the new name.
  private func isNoLongerPackage(_ id: NodeID) -> Bool {
    guard nodes.isPackageFile(id), let link = nodes.link(of: id),
      let view = currentView(of: link.parent)
    else { return false }
    let kind = try? view.withCurrent { (projection) -> EntryKind? in
      projection.slot(realName: link.name.name.bytes.span).flatMap { projection.summary(at: $0)?.kind }
    }
    return kind == .some(.directory)
  }

  /// Removes a node's last name from the node table. A node that is open keeps it, so that a retried request still reaches the
  /// node.
  private func orphanUnlessOpen(_ node: NodeID) {
    guard openNodes.file(of: node) == nil, let identity = nodes.identity(of: node) else { return }
    nodes.orphan(node, of: identity)
  }

  /// Whether a file that was seen under several names has lost one of them. The kernel does not say which of the names a request
  /// means. Invalidates the lost names, so that the kernel looks them up from now on.
  func hasLostOtherLink(_ id: NodeID, _ link: NodeTable.Link) -> Bool {
    guard link.areOtherLinksCacheable else { return false }
    let left = nodes.otherLinks(of: id).filter {
      $0.isEntryCacheable && !holds(NodeID($0.parent), $0.name, link)
    }
    for other in left {
      invalidateCachedName(other.name, in: NodeID(other.parent), of: id)
      nodes.removeOtherLink(id, NodeID(other.parent), other.name)
    }
    return !left.isEmpty
  }

  /// Called before the node table records that the last name of a file was removed through the mount. Clients that have the file
  /// open are still served. Clients that use a name which another process has taken from the file are not.
  func expireOtherNames(of taken: stat) {
    guard taken.st_nlink <= 1, let node = nodes.node(of: FileIdentity(taken)),
      let known = nodes.link(of: node)
    else { return }
    _ = hasLostOtherLink(node, known)
  }

  /// Whether a name leads to the file at `link`.
  func holds(_ parent: NodeID, _ name: CName, _ link: NodeTable.Link) -> Bool {
    guard let parent = try? directory(parent), let status = name.withPointer({ try? parent.status($0) })
    else { return false }
    return link.matches(status)
  }

  /// Invalidates a name that the kernel may resolve to a node although it no longer leads there. The client that revealed this
  /// looks the node up on its retry and is trusted from then on, so it must not reach the node by the old name again.
  private func invalidateCachedName(_ name: CName, in parent: NodeID, of node: NodeID) {
    var names = [name.name]
    // The calling thread may have the directory locked.
    if nodes.aliases(of: node).contains(.display),
      let shown = directories.views.view(of: parent)?.displayNameUnlessLocked(name.name)
    {
      names.append(shown)
    }
    invalidateBeforeNextWalk(names.map { StaleName($0, in: parent, mayBeDirectory: false, node: node) })
  }
}
