import BackingTree
import Glibc
import SystemPackage

/// The kind of a file's node: a package has one node as a regular file and one as a directory.
package enum NodeKind: UInt8, CaseIterable, Sendable {
  case plain, packageFile
  /// An alias of the Finder that is shown as a symbolic link. Its file has no plain node at the same time.
  case alias

  /// The kinds of nodes that a file of the backing tree may have.
  static func kinds(of type: FileType) -> [NodeKind] {
    type == .directory ? [.plain, .packageFile] : type == .regular ? [.plain, .alias] : [.plain]
  }
}

/// The files that the kernel knows, one node for each (device, inode, kind of node).
///
/// File systems reuse inode numbers. The kernel gives up an inode if a reply states another type for it than before, and every
/// process that has the file open then gets EIO. So the type of a node never changes.
///
/// A node holds no descriptor: its file is reached as (parent, real name) and checked against its identity. A node is removed
/// when the kernel has forgotten it and no other node lies below it.
///
/// This is the lock; what it protects are two tables by slot, the number of a node:
/// ```
///   identity, kind of node ──> index ──> Inode   40 bytes   file, birth, type, nlookup, …     (Inodes)
///   parent, name ────────────> index ──> Link    16 bytes   link in use, KernelAliases        (Links)
///                                          └───> name       32 bytes of malloc(3) where it is of ordinary length
/// ```
/// With 8 to 16 bytes in each index, a node takes about 110 bytes.
package final class NodeTable: Sendable {
  package static let root: NodeID = 1

  /// The link of a node, (parent, real name), as of the last time it was looked up.
  package struct Link: Sendable {
    package let parent: NodeID
    package let name: CName
    package let identity: FileIdentity
    /// That of a directory, where it is known and matters.
    let birth: Birth
    /// The type of the backing file, for either kind of the node.
    package let type: BackingTree.FileType
    package let nodeKind: NodeKind
    /// Whether the last lookup of the node used its real name.
    package let wasFoundByRealName: Bool
    /// Whether the kernel may cache this name.
    let isEntryCacheable: Bool
    /// Whether the kernel may cache other names under which the file was seen. (hard links)
    let areOtherLinksCacheable: Bool

    /// Whether a file of that status is the node's, as far as can be seen: a file of another type is not, even if it reuses the
    /// inode number, nor is a directory that was made at another time.
    func matches(_ status: stat) -> Bool {
      FileIdentity(status) == identity && FileType(mode: status.st_mode) == type && birth.mayBe(Birth(status))
    }

    /// The status of a file that was opened by the link.
    ///
    /// - Throws: ESTALE when it is not the node's.
    func status(of opened: borrowing Descriptor) throws(Errno) -> stat {
      // Only statx gives the birth, and fstat takes less time.
      let status =
        birth == .unknown
        ? try fileStatus(opened.rawValue) : try Directory(descriptor: opened.rawValue).cachedStatus("")
      guard matches(status) else { throw .staleNFSFileHandle }
      return status
    }
  }

  /// How a file found under one link relates to the node that has its identity but was seen under another link.
  package enum IdentityMatch: Sendable {
    case unknown
    /// The file is the node's, and has one more name.
    case linked
    /// The file is the node's, and has another name instead.
    case moved
    /// The file is the node's. The node keeps its link until the kernel has learned that the file has another name.
    case moving
    case another
  }

  /// A node that is about to be returned to the kernel in a reply, with its nlookup already raised by one.
  package struct LookupResult: Sendable {
    package let id: NodeID
    package let nodeid: UInt64
    package let generation: UInt64
    /// The kinds of names under which the kernel may know the node, including the one just looked up.
    let kinds: AliasKinds
    /// The node of a file that is gone and left its inode number to this one.
    var replaced: NodeID?
    /// Whether the node is a directory that had another link when it was last looked up.
    var didMove = false
    /// That link, if it was known.
    var lastLink: (parent: NodeID, name: CName)?
  }
  private let lock = RecursionFreeLock(.leaf)
  @exclusivity(unchecked) nonisolated(unsafe) private var state: Links
  private let onRelease: @Sendable (NodeID) -> Void
  private let isExported: Bool
  /// Wakes the thread that calls `release`; nil where each thread calls it itself.
  @exclusivity(unchecked) nonisolated(unsafe) private var wakeReleaser: (@Sendable () -> Void)?
  /// Whether `release` is going to be called for all nodes that are removed until then.
  @exclusivity(unchecked) nonisolated(unsafe) private var isReleaseDue = false
  /// The number of nodes beyond which `onExceeded` is called, once.
  @exclusivity(unchecked) nonisolated(unsafe) private var limit = Int.max
  @exclusivity(unchecked) nonisolated(unsafe) private var onExceeded: @Sendable () -> Void = {}

  /// - Parameter onRelease: called when a node is removed, before its number may be reused and with the table unlocked. It ends
  ///   what else is kept for the node, and closing a descriptor may take long.
  package init(
    root identity: FileIdentity, isExported: Bool = false,
    onRelease: @escaping @Sendable (NodeID) -> Void = { _ in }
  ) {
    self.onRelease = onRelease
    self.isExported = isExported
    state = Links(root: identity, isExported: isExported)
  }

  deinit { state.freeNames() }

  func withState<R>(_ body: (inout Links) -> R) -> R {
    lock.lock()
    let result = body(&state)
    let becomesDue = state.inodes.isAnyReleased && !isReleaseDue
    if becomesDue { isReleaseDue = true }
    let wake = becomesDue ? wakeReleaser : nil
    let isExceeded = state.inodes.count > limit
    if isExceeded { limit = .max }
    let report = isExceeded ? onExceeded : nil
    lock.unlock()
    report?()
    if let wake { wake() } else if becomesDue { release() }
    return result
  }

  /// From now on the thread that removes a node leaves it to another one to end what is kept for it.
  ///
  /// - Parameter wake: has that thread call `release`. Called once for all nodes that are removed before it does.
  package func deferRelease(_ wake: @escaping @Sendable () -> Void) {
    lock.lock()
    wakeReleaser = wake
    lock.unlock()
  }

  /// Ends what is kept for removed nodes, and then frees their numbers for reuse. This may wait for the backing file system.
  ///
  /// - Returns: the number of nodes.
  @discardableResult
  package func release() -> Int {
    lock.lock()
    isReleaseDue = false
    let released = state.takeReleased()
    lock.unlock()
    for slot in released { onRelease(NodeID(slot)) }
    lock.lock()
    state.reuse(released)
    lock.unlock()
    return released.count
  }

  /// Has `onExceeded` called once when there are more nodes than that.
  package func limitCount(to limit: Int, _ onExceeded: @escaping @Sendable () -> Void) {
    lock.lock()
    self.limit = limit
    self.onExceeded = onExceeded
    lock.unlock()
  }

  /// The nodeids of some nodes, in the order of their numbers, without the root.
  ///
  /// - Returns: also the number to begin at the next time, which is the first again after the last.
  package func nodeids(from first: Int, most: Int) -> (nodeids: [UInt64], next: Int) {
    withState { $0.inodes.nodeids(from: first, most: most) }
  }

  /// The number of nodes in the table.
  package var count: Int { withState { $0.inodes.count } }

  /// Finds or adds the node of a file, and raises its nlookup by one.
  ///
  /// - Parameters:
  ///   - replacing: a node that gives way to another one if its directory has another birth. It must have been in the table before
  ///     the status of the file was read: otherwise the status may be the older one.
  ///   - identityMatch: how the file relates to the node with its identity, if that node was seen under another link or has none
  ///     yet (O_TMPFILE). A directory always is the node's, unless this is `another`: then its inode number was a removed
  ///     directory's.
  /// - Returns: nil if the node was seen under another link and `identityMatch` is `unknown`, if its directory has another birth
  ///   and it is not `replacing`, and if it is recorded above its new parent: one of the links between the two is stale, or the
  ///   directory is mounted below itself.
  func lookupOrInsert(
    _ file: LookedUpFile, replacing: NodeID? = nil, _ identityMatch: IdentityMatch
  ) -> LookupResult? {
    withState { links -> LookupResult? in
      let key = Inodes.Key(file.identity, file.nodeKind)
      let linkKey = Links.LinkKey(file.parent, file.name)
      var replaced: NodeID?
      if let found = links.inodes.find(key) {
        let isDirectory = file.type == .directory
        let isPlainDirectory = isDirectory && file.nodeKind == .plain
        let isNamed = links[found].isNamed
        let isMoved = !links.isLinked(found, linkKey)
        let isElsewhere = isMoved && !isDirectory
        let isRemade = !links.inodes[found].birth.mayBe(file.birth)
        let isUndecided = identityMatch == .unknown || !isNamed && identityMatch == .moving
        if isElsewhere && isUndecided || isRemade && NodeID(found) != replacing { return nil }
        let isAnother =
          file.durable.map { links.inodes[found].generation != $0.rawValue }
          ?? (isRemade || identityMatch == .another && (isElsewhere || isDirectory || !isNamed))
        if links.inodes[found].type != file.type || isAnother {
          links.orphan(found)
          if isRemade, file.isSubvolume { links.orphanAll(on: file.identity.device) }
          replaced = NodeID(found)
        } else if isPlainDirectory, !links.inodes.isExported,
          links.hasMovedBehindKernel(found, to: linkKey.parent)
        {
          links.unindex(found)
        } else {
          let didMove = isMoved && isPlainDirectory && found != 1
          if didMove, links.childOnPath(of: found, to: linkKey.parent) != nil { return nil }
          let lastLink = didMove && isNamed ? links.place(of: found) : nil
          links.lookUp(found)
          links.noteBirth(file.birth, of: found)
          if isMoved, found != 1 {
            if isElsewhere && identityMatch == .moved || !isNamed || isPlainDirectory {
              links.setLink(found, linkKey)
              if isPlainDirectory { links.changeAliases(of: found) { $0.isEntryCacheable = false } }
            } else if !(isElsewhere && identityMatch == .moving) {
              links.addLink(found, linkKey)
            }
          }
          links.changeAliases(of: found) { aliases in
            aliases.addAlias(
              byRealName: file.byRealName, isMatch: file.isMatch, isOnly: isPlainDirectory)
            if file.isOnlyName { aliases.isEntryCacheable = true }
          }
          return links.result(found, didMove: didMove, lastLink: lastLink)
        }
      }
      if let durable = file.durable, let lost = links.inodes.slot(ofNodeid: durable.rawValue) {
        // A late event of a removed file with the same inode number has taken the node's names.
        links.restore(lost, linkKey)
        return links.result(lost, replaced: replaced)
      }
      let new = links.add(
        key, file.type, file.birth, file.durable, linkKey,
        KernelAliases(
          byRealName: file.byRealName, isMatch: file.isMatch, isEntryCacheable: file.isOnlyName))
      return links.result(new, replaced: replaced)
    }
  }

  /// The node that the kernel knows by a nodeid; nil when there is none in an exported view.
  package func node(nodeid: UInt64) -> NodeID? {
    if !isExported { return NodeID(UInt32(truncatingIfNeeded: nodeid)) }
    return withState { $0.inodes.slot(ofNodeid: nodeid).map { NodeID($0) } }
  }

  /// The nodeid of a node; 0 when there is no such node.
  package func nodeid(of id: NodeID) -> UInt64 {
    if !isExported { return UInt64(id.slot) }
    return withState { links in links.inodes.slot(of: id).map { links.inodes.nodeid(of: $0) } ?? 0 }
  }

  /// The directory that a file was in when it was last seen; nil where that is not known.
  func lastDirectory(of inode: UInt64) -> DurableNodeID? { withState { $0.forgotten.directory(of: inode) } }

  /// Records in which directory files are that the kernel does not know.
  func noteFiles(_ inodes: [UInt64], in directory: DurableNodeID) {
    withState { links in for inode in inodes { links.forgotten.insert(inode, in: directory) } }
  }

  /// Raises the nlookup of a node by one.
  ///
  /// - Parameter identity: if not nil, the file that the node must stand for: its number may be another node's by now.
  /// - Returns: nil when there is no such node.
  func lookUp(_ id: NodeID, of identity: FileIdentity? = nil) -> LookupResult? {
    withState { links in
      guard let slot = links.inodes.slot(of: id),
        identity == nil || links.inodes[slot].identity == identity
      else { return nil }
      links.lookUp(slot)
      return links.result(slot)
    }
  }

  /// The nlookup of a node; 0 when there is no such node.
  func lookupCount(of id: NodeID) -> UInt64 {
    withState { links in links.inodes.slot(of: id).map { links.inodes[$0].nlookup } ?? 0 }
  }

  /// Subtracts `count` from the nlookup of a node. (FORGET)
  package func forget(_ id: NodeID, count: UInt64) {
    withState { links in
      guard id != Self.root, let slot = links.inodes.slot(of: id) else { return }
      links.forget(slot, count: count)
    }
  }

  /// Frees the memory of removed nodes. Nodes that the kernel knows keep their numbers, so everything before the last of them
  /// stays. This takes a few milliseconds for a million nodes, and the table is locked meanwhile.
  package func shrink() { withState { $0.shrink() } }

  /// The link of a node; nil when its last name is gone, or it has no name yet.
  package func link(of id: NodeID) -> Link? {
    withState { links -> Link? in
      guard let slot = links.inodes.slot(of: id) else { return nil }
      let inode = links.inodes[slot]
      let link = links[slot]
      guard id == Self.root || link.isNamed && inode.indexState != .orphaned else { return nil }
      return Link(
        parent: NodeID(link.parent), name: link.name.map { CName(copying: $0) } ?? CName(copying: ""),
        identity: inode.identity, birth: inode.birth, type: inode.type, nodeKind: inode.nodeKind,
        wasFoundByRealName: link.aliases.wasFoundByRealName, isEntryCacheable: link.aliases.isEntryCacheable,
        areOtherLinksCacheable: links.areOtherLinksCacheable(of: slot))
    }
  }

  /// The identity of a node's file; nil when there is no such node.
  package func identity(of id: NodeID) -> FileIdentity? { inode(id) { $0.identity } }

  /// The type of a node's backing file; nil when there is no such node.
  func type(of id: NodeID) -> FileType? { inode(id) { $0.type } }

  /// Whether a node is a package shown as a file.
  func isPackageFile(_ id: NodeID) -> Bool { inode(id) { $0.nodeKind == .packageFile } ?? false }

  /// Whether a node has that identity, whatever has become of its names.
  package func hasIdentity(_ id: NodeID, _ identity: FileIdentity) -> Bool {
    inode(id) { $0.identity == identity } ?? false
  }

  /// A field of a node, without a copy of the rest. Every request passes here several times.
  @inline(__always)
  private func inode<Field>(_ id: NodeID, _ field: (borrowing Inodes.Inode) -> Field) -> Field? {
    withState { links in links.inodes.slot(of: id).map { field(links.inodes[$0]) } }
  }

  /// The node of a file; nil when the kernel does not know it.
  package func node(of identity: FileIdentity, nodeKind: NodeKind = .plain) -> NodeID? {
    withState { $0.inodes.find(Inodes.Key(identity, nodeKind)).map { NodeID($0) } }
  }

  /// Whether the kernel still knows a removed directory whose inode number now belongs to the directory with this status.
  func knowsRemovedDirectory(of status: stat) -> Bool {
    guard FileType(mode: status.st_mode) == .directory, Birth(status) != .unknown else { return false }
    return withState { links in
      NodeKind.kinds(of: .directory).contains { nodeKind in
        links.inodes.find(Inodes.Key(FileIdentity(status), nodeKind)).map {
          !links.inodes[$0].birth.mayBe(Birth(status))
        } ?? false
      }
    }
  }

  /// The node under a link.
  func node(at parent: NodeID, _ name: UnsafePointer<CChar>, nodeKind: NodeKind) -> NodeID? {
    withState { $0.find(Links.LinkKey(parent, name), nodeKind).map { NodeID($0) } }
  }

  /// Whether a directory node is, or lies below, the directory of one of these identities.
  package func isBelow(_ id: NodeID, _ identities: Set<FileIdentity>) -> Bool {
    var isFound = false
    _ = forEachAncestor(of: id) { links, slot in
      isFound = identities.contains(links.inodes[slot].identity)
      return !isFound
    }
    return isFound
  }

  /// Whether `isMatch` holds for a real name on the path from the root to a node, the node's own included; nil where the path
  /// is longer than `maximumDepth`, or a directory on it is not known to be anywhere.
  ///
  /// - Parameter isMatch: called with the table locked, so it must take no lock.
  func hasName(onPathTo id: NodeID, where isMatch: (UnsafePointer<CChar>) -> Bool) -> Bool? {
    var isFound = false
    let isComplete = forEachAncestor(of: id) { links, slot in
      if let name = links[slot].name { isFound = isMatch(name) }
      return !isFound
    }
    if isFound { return true }
    return isComplete ? false : nil
  }

  /// The maximum number of directories above one another. While the backing tree changes, a path that is followed link by link may
  /// have no end.
  static let maximumDepth = 65_536

  /// Calls `body` for a node and each node above it, without the root, until it returns false.
  ///
  /// - Returns: false where the path is longer than `maximumDepth`, or a directory on it is not known to be anywhere.
  private func forEachAncestor(of id: NodeID, _ body: (borrowing Links, UInt32) -> Bool) -> Bool {
    // The table is locked for some steps at a time: every request needs it.
    let stepsUnderLock = 64
    var current: NodeID? = id
    var hasGap = false
    for _ in 0..<Self.maximumDepth / stepsUnderLock {
      withState { links in
        for _ in 0..<stepsUnderLock {
          guard let id = current, id != Self.root, let slot = links.inodes.slot(of: id), body(links, slot)
          else {
            hasGap = current?.slot == Links.nowhere
            current = nil
            return
          }
          current = NodeID(links[slot].parent)
        }
      }
      if current == nil { return !hasGap }
    }
    return current == Self.root
  }

  /// The nodes with their latest link in one of some directories.
  func children(of directories: Set<NodeID>) -> [(id: NodeID, link: Link)] {
    let ids = withState { $0.slots(in: directories) }
    return ids.compactMap { id in link(of: id).map { (id, $0) } }
  }
}

extension Links {
  /// The reply for a node.
  fileprivate func result(
    _ slot: UInt32, replaced: NodeID? = nil, didMove: Bool = false,
    lastLink: (parent: NodeID, name: CName)? = nil
  ) -> NodeTable.LookupResult {
    NodeTable.LookupResult(
      id: NodeID(slot), nodeid: inodes.nodeid(of: slot),
      // A nodeid of an exported view is never reused.
      generation: inodes.isExported ? 0 : inodes[slot].generation, kinds: self[slot].aliases.kinds,
      replaced: replaced, didMove: didMove, lastLink: lastLink)
  }

  fileprivate func place(of slot: UInt32) -> (parent: NodeID, name: CName)? {
    self[slot].name.map { (NodeID(self[slot].parent), CName(copying: $0)) }
  }
}
