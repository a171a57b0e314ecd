import BackingTree
import Glibc

/// The links at which nodes were seen, and the nodes by link. One link of each node is in use, the latest; a file with several
/// links may have been seen at others, which are kept for when the latest goes away. A directory has one link.
///
/// The links are seen at different times, so those of directories that were moved may contradict one another. They never form a
/// cycle all the same: that would keep its nodes for ever, and no path would lead to them.
///
/// A link holds the node of its directory. So the links own the inode table, and a node that loses its last reference takes the
/// nodes above it along.
struct Links {
  /// (parent, real name)
  struct LinkKey {
    let parent: UInt32
    let name: UnsafePointer<CChar>

    init(_ parent: UInt32, _ name: UnsafePointer<CChar>) {
      self.parent = parent
      self.name = name
    }

    init(_ parent: NodeID, _ name: UnsafePointer<CChar>) { self.init(parent.slot, name) }

    var hash: Int { NodeIndex.hash(parent: parent, name) }
  }

  /// The link of a node that is in use, 16 bytes, in the slot of the node's number.
  struct Record {
    /// nil for the root, "" for a file made without a name. (O_TMPFILE)
    fileprivate(set) var name: UnsafeMutablePointer<CChar>?
    /// `nowhere` for a directory that is not known to be anywhere until it is looked up again.
    fileprivate(set) var parent: UInt32
    var aliases: KernelAliases

    var isNamed: Bool { parent != Links.nowhere && name.map { $0[0] != 0 } ?? false }

    fileprivate var hash: Int { NodeIndex.hash(parent: parent, name!) }
  }

  typealias Other = (parent: UInt32, name: CName, isEntryCacheable: Bool)

  private static let mostOthers = 8
  /// The slot that no node has.
  static let nowhere: UInt32 = 0

  private(set) var inodes: Inodes
  private var links: ContiguousArray<Record>
  private var index = NodeIndex()
  private var others: [UInt32: [Other]] = [:]
  /// In an exported view, where files were that have no node any more.
  var forgotten = ForgottenFiles()

  init(root: FileIdentity, isExported: Bool) {
    inodes = Inodes(root: root, isExported: isExported)
    links = ContiguousArray(repeating: Record(name: nil, parent: 0, aliases: .none), count: 2)
  }

  /// To be called once, at the end: the links own their names.
  func freeNames() { for link in links { free(link.name) } }

  // MARK: Finding

  subscript(slot: UInt32) -> Record { links[Int(slot)] }

  func isLinked(_ slot: UInt32, _ linkKey: LinkKey) -> Bool {
    let link = links[Int(slot)]
    return link.parent == linkKey.parent && link.name.map { strcmp($0, linkKey.name) == 0 } ?? false
  }

  /// A node of that kind that has this link in use, and for which `isMatch` holds. Several nodes may have the same link.
  func find(_ linkKey: LinkKey, _ nodeKind: NodeKind, where isMatch: (Record) -> Bool = { _ in true })
    -> UInt32?
  {
    index.find(hash: linkKey.hash) {
      inodes[$0].nodeKind == nodeKind && isMatch(links[Int($0)]) && isLinked($0, linkKey)
    }
  }

  func others(of slot: UInt32) -> [Other] { others[slot] ?? [] }
  func areOtherLinksCacheable(of slot: UInt32) -> Bool {
    !others.isEmpty && others[slot]?.contains { $0.isEntryCacheable } ?? false
  }

  /// The nodes whose link in use is in one of some directories.
  func slots(in directories: Set<NodeID>) -> [NodeID] {
    links.indices.filter { links[$0].name != nil && directories.contains(NodeID(links[$0].parent)) }.map {
      NodeID(UInt32($0))
    }
  }

  /// Whether a directory is looked up at another link than before, and its old parent has moved behind the kernel. (A parent that
  /// was removed had no directory in it: this one was moved away before.)
  func hasMovedBehindKernel(_ slot: UInt32, to parent: UInt32) -> Bool {
    let old = links[Int(slot)].parent
    return slot != 1 && old != parent && inodes[old].indexState == .unindexed
  }

  /// The node on the path to a directory that is recorded directly below another one: nil if that is not on the path, the other
  /// directory itself if the path ends there.
  func childOnPath(of ancestor: UInt32, to directory: UInt32) -> UInt32? {
    // Nothing lies below most of the directories that are moved.
    guard directory != ancestor else { return ancestor }
    guard inodes[ancestor].linksBelow > 0 else { return nil }
    var slot = directory
    while slot > 1 {
      let parent = links[Int(slot)].parent
      if parent == ancestor { return slot }
      slot = parent
    }
    return nil
  }

  // MARK: Nodes

  mutating func add(
    _ key: Inodes.Key, _ type: FileType, _ birth: Birth, _ durable: DurableNodeID?, _ linkKey: LinkKey,
    _ aliases: KernelAliases
  ) -> UInt32 {
    let slot = inodes.add(key, type, birth, durable)
    let link = Record(name: strdup(linkKey.name), parent: linkKey.parent, aliases: aliases)
    if Int(slot) == links.count { links.append(link) } else { links[Int(slot)] = link }
    inodes.addLink(of: linkKey.parent)
    insert(slot)
    return slot
  }

  mutating func lookUp(_ slot: UInt32) { inodes.lookUp(slot) }
  mutating func noteBirth(_ birth: Birth, of slot: UInt32) { inodes.noteBirth(birth, of: slot) }

  mutating func forget(_ slot: UInt32, count: UInt64) {
    inodes.forget(slot, count: count)
    releaseIfUnused(slot)
  }

  mutating func changeAliases(of slot: UInt32, _ body: (inout KernelAliases) -> Void) {
    body(&links[Int(slot)].aliases)
  }

  /// Removes a node from the index by identity. The node lives on for the processes that use it.
  mutating func unindex(_ slot: UInt32) { inodes.unindex(slot, .unindexed) }

  /// Orphans a node, because its file is gone with all names. The processes that use the node keep it.
  mutating func orphan(_ slot: UInt32) {
    inodes.unindex(slot, .orphaned)
    index.remove(slot, hash: links[Int(slot)].hash)
    removeOthers(of: slot)
  }

  /// Orphans all nodes with a device number.
  mutating func orphanAll(on device: UInt64) {
    // To orphan one may release others.
    for slot in inodes.slots(on: device) where inodes[slot].indexState == .current { orphan(slot) }
  }

  /// Gives a node that was orphaned by mistake a name again, and raises its nlookup by one.
  mutating func restore(_ slot: UInt32, _ linkKey: LinkKey) {
    inodes.reindex(slot)
    lookUp(slot)
    setLink(slot, linkKey)
  }

  private mutating func releaseIfUnused(_ start: UInt32) {
    var slot = start
    while inodes.isUnused(slot) {
      let link = links[Int(slot)]
      if inodes.isExported { recordForgotten(slot, in: link.parent) }
      index.remove(slot, hash: link.hash)
      free(link.name)
      links[Int(slot)].name = nil
      inodes.release(slot)
      removeOthers(of: slot)
      inodes.removeLink(of: link.parent)
      slot = link.parent
    }
  }

  /// A directory needs no record: its parent is `..`.
  private mutating func recordForgotten(_ slot: UInt32, in directory: UInt32) {
    let inode = inodes[slot]
    guard inode.indexState == .current, inode.type != .directory,
      DurableNodeID(rawValue: inode.generation).nodeKind != nil
    else { return }
    forgotten.insert(inode.identity.inode, in: DurableNodeID(rawValue: inodes.nodeid(of: directory)))
  }

  // MARK: Links

  /// Makes a link the node's latest, which is the one in use. The earlier link is kept for when the latest goes away, if the
  /// file may have both links.
  mutating func addLink(_ slot: UInt32, _ linkKey: LinkKey) {
    let link = links[Int(slot)]
    guard let current = link.name, !isLinked(slot, linkKey) else { return }
    if others[slot]?.count ?? 0 < Self.mostOthers {
      inodes.addLink(of: link.parent)
      others[slot, default: []].append((link.parent, CName(copying: current), link.aliases.isEntryCacheable))
    }
    let isEntryCacheable = others[slot]?.first { Self.isAt($0, linkKey) }?.isEntryCacheable ?? false
    setLink(slot, linkKey)
    links[Int(slot)].aliases.hadSeveralLinks = true
    links[Int(slot)].aliases.isEntryCacheable = isEntryCacheable
  }

  /// Replaces the link of a node that is in use. A directory that is recorded between the two no longer is where it was seen.
  mutating func setLink(_ slot: UInt32, _ linkKey: LinkKey) {
    if inodes[slot].type == .directory, let stale = childOnPath(of: slot, to: linkKey.parent) {
      if stale == slot { return }
      // The node may be there for that link alone.
      inodes.addLink(of: slot)
      dropLink(stale)
      setLink(slot, linkKey)
      return removeLink(of: slot)
    }
    let old = links[Int(slot)]
    // First, so that a directory that loses a link and gets one is not released meanwhile.
    inodes.addLink(of: linkKey.parent)
    removeOther(of: slot, linkKey)
    let name = strdup(linkKey.name)
    index.remove(slot, hash: old.hash)
    free(old.name)
    links[Int(slot)].name = name
    links[Int(slot)].parent = linkKey.parent
    insert(slot)
    removeLink(of: old.parent)
  }

  /// Records that a directory is not where it was seen last. It gets a link again when it is looked up.
  mutating func dropLink(_ slot: UInt32) {
    let link = links[Int(slot)]
    // Its name may be that of its new place, too.
    guard link.parent != Self.nowhere, let name = link.name else { return }
    setLink(slot, LinkKey(Self.nowhere, name))
  }

  /// Removes the link of a node that is in use, if the node was seen at another one.
  ///
  /// - Parameter other: the one that comes into use; nil for the one that was seen last.
  mutating func leaveLink(_ slot: UInt32, for other: Other? = nil) {
    guard let next = other ?? others[slot]?.last else { return }
    next.name.withPointer { setLink(slot, LinkKey(next.parent, $0)) }
    links[Int(slot)].aliases.isEntryCacheable = next.isEntryCacheable
  }

  mutating func removeOther(of slot: UInt32, _ linkKey: LinkKey) {
    guard !others.isEmpty, let index = others[slot]?.firstIndex(where: { Self.isAt($0, linkKey) }) else {
      return
    }
    others[slot]!.remove(at: index)
    if others[slot]!.isEmpty { others[slot] = nil }
    removeLink(of: linkKey.parent)
  }

  private mutating func removeOthers(of slot: UInt32) {
    guard !others.isEmpty else { return }
    for other in others.removeValue(forKey: slot) ?? [] { removeLink(of: other.parent) }
  }

  private mutating func removeLink(of directory: UInt32) {
    inodes.removeLink(of: directory)
    releaseIfUnused(directory)
  }

  private static func isAt(_ other: Other, _ linkKey: LinkKey) -> Bool {
    other.parent == linkKey.parent && other.name.equals(linkKey.name)
  }

  private mutating func insert(_ slot: UInt32) {
    index.insert(slot, hash: links[Int(slot)].hash) { links[Int($0)].hash }
  }

  // MARK: Memory

  mutating func takeReleased() -> [UInt32] { inodes.takeReleased() }
  mutating func reuse(_ slots: [UInt32]) { inodes.reuse(slots) }

  mutating func shrink() {
    guard let end = inodes.shrink() else { return }
    links = ContiguousArray(links[..<end])
    index.resize { links[Int($0)].hash }
  }
}
