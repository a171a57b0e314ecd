import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// What is done by a name, and the kernel does by node, before it is told that others have taken the name away or given it
/// to another file.
///
/// A program that writes by a name, or makes a file by it if there is none, must not get what had that name before: nobody
/// would find again what it writes, or it would overwrite another file. Told that the node is stale (ESTALE), the kernel
/// has every name of the path looked up and tries once more.
extension View {
  /// Whether a file, which is somewhere else than the kernel knows it to be, is that one. The kernel may still believe in the
  /// name that it had.
  ///
  /// If it is gone from there it may even be another file: inode numbers are used again, but not those of files that
  /// somebody has open.
  func sameness(of status: stat, _ facet: Facet) -> NodeTable.Sameness {
    guard let node = nodes.node(of: FileIdentity(status), facet: facet), let known = nodes.location(of: node)
    else { return .another }
    if status.st_nlink > 1, !known.isKept, !known.areOthersKept { return .linked }
    let isOpen = openNodes.file(of: node) != nil
    guard isOpen || status.st_nlink > 1 else { return .another }
    _ = hasLeftOtherPlace(node, known)
    if status.st_nlink > 1, holds(known.parent, known.name, known) { return .linked }
    guard isOpen else { return .another }
    movedNodes.noteMove(of: node)
    invalidateKept(known.name, in: known.parent, of: node)
    return .moved
  }

  /// Before it counts that a file was moved through the mount: the kernel may have taken its name for another one's, and takes
  /// that one for what is at the new name now; and it may know the file by a name that it no longer had.
  func correctNames(
    of moved: stat, from old: (parent: NodeID, name: CName), to new: (parent: NodeID, name: CName)
  ) {
    guard FileType(mode: moved.st_mode) != .directory else { return }
    let identity = FileIdentity(moved)
    if let taken = old.name.withPointer({ nodes.node(at: old.parent, $0, facet: .plain) }),
      !nodes.isNode(taken, identity)
    {
      letGo(taken)
      invalidate(new.name.name, in: new.parent)
    }
    guard let node = nodes.node(of: identity), let known = nodes.location(of: node),
      known.parent != old.parent || known.name.name != old.name.name
    else { return }
    switch sameness(of: moved, .plain) {
    case .another: letGo(node)
    case .moved: nodes.moved(identity, facet: .plain, from: (known.parent, known.name), to: old)
    default: break
    }
  }

  /// Called before anything is changed in a directory: a client that came to it by a name which it has lost in the backing
  /// tree would change another directory than the one that it named.
  ///
  /// - Throws: ESTALE; the kernel walks the path again. A client that works in the directory, or has it open, comes back
  ///   without having looked it up, and is served.
  func refuseIfMoved(_ id: NodeID, _ caller: Caller) throws(Errno) {
    guard mayHaveMoved(id, caller) else { return }
    if !staleNames.isAskedAgain(id, by: caller.process) { throw .staleNFSFileHandle }
  }

  /// The same for an operation with two paths. The kernel walks both again, but only once: it is refused once, whichever of
  /// the directories were moved.
  func refuseIfMoved(_ id: NodeID, _ other: NodeID, _ caller: Caller) throws(Errno) {
    let refused = refusedRenames.take(by: caller.process) ?? []
    let moved = Set([id, other].filter { mayHaveMoved($0, caller) })
    if moved.isSubset(of: refused) { return }
    refusedRenames.noteRefusal(of: moved, by: caller.process)
    throw .staleNFSFileHandle
  }

  private func mayHaveMoved(_ id: NodeID, _ caller: Caller) -> Bool {
    guard id != NodeTable.root, let location = nodes.location(of: id) else { return false }
    return !holds(location.parent, location.name, location)
      || movedNodes.mayHaveComeByOldName(id, caller.process)
  }

  /// Called before a node's attributes are read.
  ///
  /// - Throws: ESTALE when the client may have come by a name that the kernel should have dropped; the kernel walks the path
  ///   again.
  public func refuseStaleName(of id: NodeID, _ caller: Caller) throws(Errno) {
    guard movedNodes.mayHaveComeByOldName(id, caller.process, isRead: true) || hasCeasedToBePackage(id),
      !mayMeanOpenFile(id, caller), !staleNames.isAskedAgain(id, by: caller.process)
    else { return }
    throw .staleNFSFileHandle
  }

  /// Whether a node is the file of a package that is shown as a directory by now, as it was renamed. The kernel moves the
  /// dentry of the file with the name.
  private func hasCeasedToBePackage(_ id: NodeID) -> Bool {
    guard nodes.isPackageFile(id), let location = nodes.location(of: id),
      let view = currentView(of: location.parent)
    else { return false }
    let kind = try? view.withCurrent { (projection) -> EntryKind? in
      projection.slot(realName: location.name.name.bytes.span).flatMap { projection.summary(at: $0)?.kind }
    }
    return kind == .some(.directory)
  }

  /// Nothing leads to a node any more. One that is open is still reached where it is asked for again.
  private func letGo(_ node: NodeID) {
    guard openNodes.file(of: node) == nil, let known = nodes.location(of: node) else { return }
    known.name.withPointer {
      _ = nodes.removed(known.identity, facet: known.facet, from: known.parent, name: $0, isLast: true)
    }
  }

  /// Whether a file that was seen in several places has left one: by which of its names it is meant the kernel does not say.
  /// From now on it asks.
  func hasLeftOtherPlace(_ id: NodeID, _ location: NodeTable.Location) -> Bool {
    guard location.areOthersKept else { return false }
    let left = nodes.otherKeptPlaces(of: id).filter { !holds($0.parent, $0.name, location) }
    for (parent, name) in left {
      invalidateKept(name, in: parent, of: id)
      nodes.leftOtherPlace(id, parent, name)
    }
    return !left.isEmpty
  }

  /// Before it counts that the last name of a file was taken through the mount: who has it open is still served, but nobody
  /// who comes by a name that others have taken from it.
  func expireOtherNames(of taken: stat) {
    guard taken.st_nlink <= 1, let node = nodes.node(of: FileIdentity(taken)),
      let known = nodes.location(of: node)
    else { return }
    _ = hasLeftOtherPlace(node, known)
  }

  /// Whether a name leads to the file.
  func holds(_ parent: NodeID, _ name: CName, _ location: NodeTable.Location) -> Bool {
    guard let parent = try? directory(parent), let status = name.withPointer({ try? parent.status($0) })
    else { return false }
    return location.isOf(status)
  }

  /// The kernel may resolve a name to a node that it does not lead to any more. The client that has found that out is not to
  /// come to the node by that name once more: from then on it has looked the node up.
  private func invalidateKept(_ name: CName, in parent: NodeID, of node: NodeID) {
    var names = [name.name]
    // The calling thread may have the directory locked.
    if nodes.aliases(of: node).contains(.display),
      let shown = directoryViews.view(of: parent)?.shownNameUnlessLocked(name.name)
    {
      names.append(shown)
    }
    invalidate(names.map { StaleName($0, in: parent, mayBeDirectory: false, node: node) })
  }
}

/// Threads that were told that a node is stale, whereupon the kernel has the names looked up that led to it and asks again.
///
/// It may have been meant all the same. One that is open although its name is gone may have been opened through what is open
/// (`/proc/self/fd`): then the kernel has no name to look up before it asks again.
final class StaleNames: Sendable {
  private let told = Guarded<[pid_t: (nodes: Set<NodeID>, when: ContinuousClock.Instant)]>([:])
  /// Look-ups pass here all the time, and almost always find nothing.
  private let areAny = Atomic<Bool>(false)

  private let atOnce: Duration

  /// - Parameter atOnce: within what time the kernel asks again.
  init(atOnce: Duration) { self.atOnce = atOnce }

  /// Whether a thread that was told that a node is stale asks for it again, having looked nothing up. If not, it is to be told.
  func isAskedAgain(_ node: NodeID, by thread: pid_t) -> Bool {
    if take(by: thread) == [node] { return true }
    noteRefusal(of: [node], by: thread)
    return false
  }

  /// Takes what a thread was told to be stale, if it was just now: nil where it was told nothing.
  func take(by thread: pid_t) -> Set<NodeID>? {
    // A thread in another process-id namespace cannot be told from others.
    guard thread != 0, areAny.load(ordering: .acquiring) else { return nil }
    return told.withLock { told in
      guard let last = told.removeValue(forKey: thread), ContinuousClock.now - last.when < atOnce else {
        return nil
      }
      return last.nodes
    }
  }

  /// A thread is told that nodes are stale.
  func noteRefusal(of nodes: Set<NodeID>, by thread: pid_t) {
    guard thread != 0 else { return }
    told.withLock { told in
      let now = ContinuousClock.now
      // A client that gives up sends nothing any more.
      if told.count >= 64 { told = told.filter { now - $0.value.when < atOnce } }
      if told.count >= 4096 { told = [:] }
      told[thread] = (nodes, now)
      areAny.store(true, ordering: .releasing)
    }
  }

  /// A thread looks a name up, or has learnt by what another one looks up what it leads to: it opens or makes another file.
  ///
  /// - Parameter directory: where it looks a name up. A thread that was told that this very directory is stale has come to it
  ///   by no name: it works in it, or has it open.
  func goesOn(_ thread: pid_t, in directory: NodeID? = nil) {
    guard areAny.load(ordering: .acquiring) else { return }
    told.withLock { told in
      if let directory, told[thread]?.nodes == [directory] { return }
      told[thread] = nil
      if told.isEmpty { areAny.store(false, ordering: .releasing) }
    }
  }
}
