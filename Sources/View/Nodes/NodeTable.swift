import BackingTree
import Glibc

/// The number by which the kernel knows a file; 1 is the root of the view.
public typealias NodeID = UInt64

/// The kind of a file's node: a package has one node as a regular file and one as a directory.
public enum Facet: UInt8, Sendable { case plain, packageFile }

/// The files that the kernel knows, one node for each (device, inode, facet).
///
/// File systems reuse inode numbers. The kernel gives up an inode if a reply states another type for it than before, and every
/// process that has the file open then gets EIO. So the type of a node never changes.
///
/// A node holds no descriptor: its file is reached as (parent, real name) and checked against its identity. A node is removed
/// when the kernel has forgotten it and no other node lies below it. A node takes about 110 bytes with a name of ordinary
/// length.
public final class NodeTable: Sendable {
  public static let root: NodeID = 1

  /// The place of a node, (parent, real name), as of the last time it was looked up.
  public struct Location: Sendable {
    public let parent: NodeID
    public let name: CName
    public let identity: FileIdentity
    /// The type of the backing file, for either facet of the node.
    public let type: BackingTree.FileType
    public let facet: Facet
    /// Whether the last lookup of the node used its real name.
    public let wasGivenByRealName: Bool
    /// Whether the kernel may cache this name.
    let isKept: Bool
    /// Whether the kernel may cache other names under which the file was seen. (hard links)
    let areOthersKept: Bool

    /// Whether a file of that status is the node's, as far as can be seen: a file of another type is not, even if it reuses the
    /// inode number.
    func isOf(_ status: stat) -> Bool {
      FileIdentity(status) == identity && FileType(mode: status.st_mode) == type
    }
  }

  /// How a file found at one place relates to the node that has its identity but was seen at another place.
  public enum Sameness: Sendable {
    case unknown
    /// The file is the node's, and has one more name.
    case linked
    /// The file is the node's, and has another name instead.
    case moved
    /// The file is the node's. The node keeps its place until the kernel has learned that the file has another name.
    case moving
    case another
  }

  /// A node that is about to be returned to the kernel in a reply, with its nlookup already raised by one.
  public struct Remembered: Sendable {
    public let id: NodeID
    public let generation: UInt64
    /// The kinds of names under which the kernel may know the node, including the one just looked up.
    let given: AliasKinds
    /// The node of a file that is gone and left its inode number to this one.
    var gone: NodeID?
    /// Whether the node is a directory that was at another place when it was last looked up.
    var hasMoved = false
  }

  fileprivate struct Node {
    var identity: FileIdentity
    var lookups: UInt64
    var generation: UInt64
    var parent: UInt32
    let type: FileType
    var name: UnsafeMutablePointer<CChar>?
    var facet: Facet
    /// The file's last name is gone: its inode number may belong to another file by now.
    var isDetached = false
    /// Whether a lookup by identity finds this node.
    var isIndexed = true
    var wasGivenByRealName = true
    /// The kinds of names under which the kernel may know the node.
    var given: AliasKinds
    /// Whether the kernel may cache the name of the node's place: it was the file's only name at the time of the reply.
    var isKept = false
    /// Whether the node has been seen at several places: the kernel's dentry for one of them says nothing about the others.
    var wasLinked = false
    /// The number of places below this node, `otherPlaces` included: a directory's node stays while something below it is
    /// known.
    var children: UInt32

    /// False for the root, and for a file made without a name. (O_TMPFILE)
    var isNamed: Bool { name.map { $0[0] != 0 } ?? false }

    /// The kernel has one dentry per directory: `d_splice_alias` moves it to the name that was looked up last.
    mutating func give(_ name: AliasKinds) {
      if type == .directory, facet == .plain { given = name } else { given.insert(name) }
    }
  }

  fileprivate struct State {
    var nodes: ContiguousArray<Node> = []
    var free: [UInt32] = []
    var index = NodeIndex()
    /// The nodes by place: by parent and real name.
    var places = NodeIndex()
    var generation: UInt64 = 1
    /// Slots of removed nodes with numbers that are not free yet.
    var released: [UInt32] = []
    /// The number of slots that were taken from `released` and are not free yet either.
    var beingReleased = 0
    /// Further places of files with several links, for use when the place in the node goes away.
    var otherPlaces: [UInt32: [(parent: UInt32, name: CName, isKept: Bool)]] = [:]
  }

  private let lock = RecursionFreeLock(.leaf)
  @exclusivity(unchecked) nonisolated(unsafe) private var state: State
  private let onRelease: @Sendable (NodeID) -> Void

  /// - Parameter onRelease: called when a node is removed, before its number may be reused and with the table unlocked. It ends
  ///   what else is kept for the node, and closing a descriptor may take long.
  public init(root identity: FileIdentity, onRelease: @escaping @Sendable (NodeID) -> Void = { _ in }) {
    self.onRelease = onRelease
    var initial = State()
    let none = Node(
      identity: FileIdentity(device: 0, inode: 0), lookups: 0, generation: 0, parent: 0,
      type: .directory, name: nil, facet: .plain, given: [], children: 0)
    var root = none
    root.identity = identity
    root.lookups = 1
    initial.nodes = [none, root]
    initial.index.insert(1, hash: NodeIndex.hash(identity, .plain))
    state = initial
  }

  deinit { for node in state.nodes { free(node.name) } }

  private func locked<R>(_ body: (inout State) -> R) -> R {
    lock.lock()
    let result = body(&state)
    let isAnyReleased = !state.released.isEmpty
    lock.unlock()
    if isAnyReleased { release() }
    return result
  }

  /// Frees the numbers of removed nodes for reuse.
  private func release() {
    lock.lock()
    let released = state.released
    state.released = []
    state.beingReleased += released.count
    lock.unlock()
    for slot in released { onRelease(NodeID(slot)) }
    lock.lock()
    state.free += released
    state.beingReleased -= released.count
    lock.unlock()
  }

  /// The number of nodes in the table.
  public var count: Int {
    locked { $0.nodes.count - 1 - $0.free.count - $0.released.count - $0.beingReleased }
  }

  /// Finds or adds the node of a file found under `name` in `parent`, and raises its nlookup by one.
  ///
  /// - Parameters:
  ///   - type: the type of the backing file.
  ///   - name: the file's real name.
  ///   - byRealName: whether the file was looked up by that name.
  ///   - isOnlyName: whether the file has no other name, so that the kernel may cache this one.
  ///   - sameness: how the file relates to the node with its identity, if that node was seen at another place. A directory
  ///     always is the node's, unless this is `another`: then its inode number was a removed directory's.
  /// - Returns: nil if the node was seen at another place and `sameness` is `unknown`.
  public func remember(
    _ identity: FileIdentity, _ type: BackingTree.FileType, facet: Facet, parent: NodeID,
    name: UnsafePointer<CChar>, byRealName: Bool = true, isOnlyName: Bool = true, sameness: Sameness
  ) -> Remembered? {
    locked { state -> Remembered? in
      let hash = NodeIndex.hash(identity, facet)
      var gone: NodeID?
      if let found = state.find(identity, facet, hash: hash) {
        let isElsewhere =
          type != .directory && state.nodes[Int(found)].isNamed
          && !state.isPlaced(found, parent: UInt32(parent), name)
        if isElsewhere, sameness == .unknown { return nil }
        let hasMoved =
          type == .directory && facet == .plain && found != 1
          && !state.isPlaced(found, parent: UInt32(parent), name)
        let isReused = sameness == .another && (isElsewhere || type == .directory)
        if state.nodes[Int(found)].type != type || isReused {
          state.detach(found, hash: hash)
          gone = NodeID(found)
        } else if type == .directory, facet == .plain, state.hasMovedUnseen(found, to: UInt32(parent)) {
          state.supersede(found, hash: hash)
        } else {
          state.nodes[Int(found)].lookups += 1
          state.nodes[Int(found)].wasGivenByRealName = byRealName
          state.nodes[Int(found)].give(byRealName ? .real : .display)
          if isElsewhere && sameness == .moved || found != 1 && !state.nodes[Int(found)].isNamed {
            state.dropOtherPlace(found, parent: UInt32(parent), name: name)
            state.setPlace(found, parent: UInt32(parent), name: name)
          } else if found != 1, !(isElsewhere && sameness == .moving) {
            state.place(found, parent: UInt32(parent), name: name)
          }
          if isOnlyName { state.nodes[Int(found)].isKept = true }
          return Remembered(
            id: NodeID(found), generation: state.nodes[Int(found)].generation,
            given: state.nodes[Int(found)].given, hasMoved: hasMoved)
        }
      }
      var new = state.add(identity, type, facet, UInt32(parent), name, byRealName: byRealName, hash: hash)
      new.gone = gone
      state.nodes[Int(new.id)].isKept = isOnlyName
      return new
    }
  }

  /// Subtracts `count` from the nlookup of a node. (FORGET)
  public func forget(_ id: NodeID, count: UInt64) {
    locked { state in
      guard id > 1, Int(id) < state.nodes.count, state.nodes[Int(id)].lookups > 0 else { return }
      state.nodes[Int(id)].lookups -= min(count, state.nodes[Int(id)].lookups)
      state.releaseIfUnused(UInt32(id))
    }
  }

  /// Frees the memory of removed nodes. Nodes that the kernel knows keep their numbers, so everything before the last of them
  /// stays. This takes a few milliseconds for a million nodes, and the table is locked meanwhile.
  public func shrink() { locked { $0.shrink() } }

  /// The place of a node; nil when its last name is gone, or it has no name yet.
  public func location(of id: NodeID) -> Location? {
    locked { state -> Location? in
      guard Int(id) < state.nodes.count, id >= 1 else { return nil }
      let node = state.nodes[Int(id)]
      guard id == 1 || node.isNamed && !node.isDetached else { return nil }
      return Location(
        parent: NodeID(node.parent), name: node.name.map { CName(copying: $0) } ?? CName(copying: ""),
        identity: node.identity, type: node.type, facet: node.facet,
        wasGivenByRealName: node.wasGivenByRealName,
        isKept: node.isKept,
        areOthersKept: !state.otherPlaces.isEmpty
          && state.otherPlaces[UInt32(id)]?.contains { $0.isKept } ?? false)
    }
  }

  /// The other names under which a node was seen and the kernel may cache it.
  func otherKeptPlaces(of id: NodeID) -> [(parent: NodeID, name: CName)] {
    locked { state in
      (state.otherPlaces[UInt32(id)] ?? []).filter(\.isKept).map { (NodeID($0.parent), $0.name) }
    }
  }

  /// Removes a place at which a node was seen before.
  func leftOtherPlace(_ id: NodeID, _ parent: NodeID, _ name: CName) {
    locked { state in
      name.withPointer { state.dropOtherPlace(UInt32(id), parent: UInt32(parent), name: $0) }
    }
  }

  /// The identity of a node's file; nil when there is no such node.
  public func identity(of id: NodeID) -> FileIdentity? {
    locked {
      Int(id) < $0.nodes.count && ($0.nodes[Int(id)].name != nil || id == 1)
        ? $0.nodes[Int(id)].identity : nil
    }
  }

  /// The type of a node's backing file; nil when there is no such node.
  func type(of id: NodeID) -> FileType? {
    locked { Int(id) < $0.nodes.count && id >= 1 ? $0.nodes[Int(id)].type : nil }
  }

  /// Whether a node is a package shown as a file.
  func isPackageFile(_ id: NodeID) -> Bool {
    locked { Int(id) < $0.nodes.count && $0.nodes[Int(id)].facet == .packageFile }
  }

  /// The node of a file; nil when the kernel does not know it.
  public func node(of identity: FileIdentity, facet: Facet = .plain) -> NodeID? {
    locked { $0.find(identity, facet, hash: NodeIndex.hash(identity, facet)).map(NodeID.init) }
  }

  /// The node at a place.
  func node(at parent: NodeID, _ name: UnsafePointer<CChar>, facet: Facet) -> NodeID? {
    locked { state in
      state.places.find(hash: NodeIndex.hash(parent: UInt32(parent), name)) {
        state.nodes[Int($0)].facet == facet && state.isPlaced($0, parent: UInt32(parent), name)
      }.map(NodeID.init)
    }
  }

  /// Whether a directory node is, or lies below, the directory of that identity.
  public func isBelow(_ id: NodeID, _ identity: FileIdentity) -> Bool {
    locked { state in
      var current = id
      var steps = 0
      while current > 1, Int(current) < state.nodes.count, steps < 65_536 {
        if state.nodes[Int(current)].identity == identity { return true }
        current = NodeID(state.nodes[Int(current)].parent)
        steps += 1
      }
      return false
    }
  }

  /// Whether a node has that identity, whatever has become of its names.
  public func isNode(_ id: NodeID, _ identity: FileIdentity) -> Bool {
    locked { Int(id) < $0.nodes.count && $0.nodes[Int(id)].identity == identity }
  }

  /// The nodes with their latest place in one of some directories.
  func located(in directories: Set<NodeID>) -> [(id: NodeID, location: Location)] {
    let ids = locked { state in
      state.nodes.indices.filter {
        state.nodes[$0].name != nil && directories.contains(NodeID(state.nodes[$0].parent))
      }
    }
    return ids.compactMap { id in location(of: NodeID(id)).map { (NodeID(id), $0) } }
  }

  /// Handles a rename: moves the node from one place to another. Its other names stay.
  ///
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  public func moved(
    _ identity: FileIdentity, facet: Facet, from old: (parent: NodeID, name: CName),
    to new: (parent: NodeID, name: CName)
  ) -> AliasKinds {
    locked { state in
      guard let found = state.find(identity, facet, hash: NodeIndex.hash(identity, facet)), found != 1
      else { return [] }
      old.name.withPointer { oldName in
        new.name.withPointer { newName in
          if state.nodes[Int(found)].type == .directory
            || state.isPlaced(found, parent: UInt32(old.parent), oldName)
          {
            state.dropOtherPlace(found, parent: UInt32(new.parent), name: newName)
            state.setPlace(found, parent: UInt32(new.parent), name: newName)
          } else {
            state.dropOtherPlace(found, parent: UInt32(old.parent), name: oldName)
            state.place(found, parent: UInt32(new.parent), name: newName)
            state.nodes[Int(found)].isKept = true
          }
        }
      }
      return state.nodes[Int(found)].given
    }
  }

  /// Called when the kernel has moved its dentry of a file from the old name to a new one, and has no other dentry of the file
  /// there.
  func renamed(_ identity: FileIdentity, facet: Facet, byRealName: Bool) {
    locked { state in
      guard let found = state.find(identity, facet, hash: NodeIndex.hash(identity, facet)) else { return }
      let name: AliasKinds = byRealName ? .real : .display
      if state.nodes[Int(found)].wasLinked {
        state.nodes[Int(found)].given.insert(name)
      } else {
        state.nodes[Int(found)].given = name
      }
      state.nodes[Int(found)].wasGivenByRealName = byRealName
    }
  }

  /// Whether the kernel may know a file by its display name. It may know more than one file at that place, where the node of
  /// one was superseded.
  func isGivenByDisplayName(
    _ identity: FileIdentity, facet: Facet, at parent: NodeID, _ name: UnsafePointer<CChar>
  ) -> Bool {
    locked { state in
      let isAnother = state.places.find(hash: NodeIndex.hash(parent: UInt32(parent), name)) {
        let node = state.nodes[Int($0)]
        return node.facet == facet && node.given.contains(.display)
          && state.isPlaced($0, parent: UInt32(parent), name)
      }
      if isAnother != nil { return true }
      guard let found = state.find(identity, facet, hash: NodeIndex.hash(identity, facet)) else {
        return false
      }
      return state.nodes[Int(found)].given.contains(.display)
    }
  }

  /// The kinds of names under which the kernel may know a node.
  func aliases(of id: NodeID) -> AliasKinds {
    locked { Int(id) < $0.nodes.count ? $0.nodes[Int(id)].given : [] }
  }

  /// Called after a package was moved by its display name: the kernel moved the file's dentry, and does not know that the
  /// package's directory moved too. It still has the directory at the old place, and it refuses (ESTALE) to have one directory
  /// at two places while a rename is under way. So a lookup of the directory at its new place gets another node, and so does a
  /// lookup of any directory below it. A process that works in one of these directories keeps its old node.
  public func movedUnseen(_ identity: FileIdentity) {
    locked { state in
      let hash = NodeIndex.hash(identity, .plain)
      guard let found = state.find(identity, .plain, hash: hash), found != 1 else { return }
      state.supersede(found, hash: hash)
    }
  }

  /// Handles the removal of a name: a file with further known links is reached by one of them from now on.
  ///
  /// - Parameter isLast: whether it was the file's last name. Open files keep their node; a new file that gets the same inode
  ///   number will have another node.
  /// - Returns: the kinds of names under which the kernel may know the node.
  @discardableResult
  public func removed(
    _ identity: FileIdentity, facet: Facet, from parent: NodeID, name: UnsafePointer<CChar>, isLast: Bool
  ) -> AliasKinds {
    locked { state in
      let hash = NodeIndex.hash(identity, facet)
      guard let found = state.find(identity, facet, hash: hash), found != 1 else { return [] }
      // A node that was looked up at another place since then is there: the inode number may belong to another file by now.
      if isLast, state.isPlaced(found, parent: UInt32(parent), name) {
        state.detach(found, hash: hash)
        return state.nodes[Int(found)].given
      }
      state.dropOtherPlace(found, parent: UInt32(parent), name: name)
      let node = state.nodes[Int(found)]
      if state.isPlaced(found, parent: UInt32(parent), name), let next = state.otherPlaces[found]?.last {
        next.name.withPointer { name in
          state.setPlace(found, parent: next.parent, name: name)
          state.nodes[Int(found)].isKept = next.isKept
          state.dropOtherPlace(found, parent: next.parent, name: name)
        }
      }
      return node.given
    }
  }
}

extension NodeTable.State {
  func find(_ identity: FileIdentity, _ facet: Facet, hash: Int) -> UInt32? {
    index.find(hash: hash) { nodes[Int($0)].identity == identity && nodes[Int($0)].facet == facet }
  }

  mutating func add(
    _ identity: FileIdentity, _ type: FileType, _ facet: Facet, _ parent: UInt32,
    _ name: UnsafePointer<CChar>,
    byRealName: Bool, hash: Int
  ) -> NodeTable.Remembered {
    generation += 1
    let node = NodeTable.Node(
      identity: identity, lookups: 1, generation: generation, parent: parent, type: type,
      name: strdup(name), facet: facet, wasGivenByRealName: byRealName,
      given: byRealName ? .real : .display, children: 0)
    let slot: UInt32
    if let reused = free.popLast() {
      slot = reused
      nodes[Int(slot)] = node
    } else {
      slot = UInt32(nodes.count)
      nodes.append(node)
    }
    nodes[Int(parent)].children += 1
    insertPlace(slot)
    index.insert(slot, hash: hash) { NodeIndex.hash(nodes[Int($0)].identity, nodes[Int($0)].facet) }
    return NodeTable.Remembered(
      id: NodeID(slot), generation: generation, given: node.given)
  }

  private mutating func insertPlace(_ slot: UInt32) {
    places.insert(slot, hash: placeHash(slot)) { Self.placeHash(nodes[Int($0)]) }
  }

  private func placeHash(_ slot: UInt32) -> Int { Self.placeHash(nodes[Int(slot)]) }

  private static func placeHash(_ node: NodeTable.Node) -> Int {
    NodeIndex.hash(parent: node.parent, node.name!)
  }

  /// Removes a node from the index by identity. The node lives on for the processes that use it.
  mutating func supersede(_ slot: UInt32, hash: Int) {
    index.remove(slot, hash: hash)
    nodes[Int(slot)].isIndexed = false
  }

  /// Orphans a node, because its file is gone with all names. The processes that use the node keep it.
  mutating func detach(_ slot: UInt32, hash: Int) {
    supersede(slot, hash: hash)
    nodes[Int(slot)].isDetached = true
    places.remove(slot, hash: placeHash(slot))
    dropOtherPlaces(slot)
  }

  /// Whether a directory is looked up at another place than before, and the node of its old parent has been superseded.
  func hasMovedUnseen(_ slot: UInt32, to parent: UInt32) -> Bool {
    let old = nodes[Int(slot)].parent
    return slot != 1 && old != parent && !nodes[Int(old)].isIndexed
  }

  func isPlaced(_ slot: UInt32, parent: UInt32, _ name: UnsafePointer<CChar>) -> Bool {
    let node = nodes[Int(slot)]
    return node.parent == parent && node.name.map { strcmp($0, name) == 0 } ?? false
  }

  /// Makes a place the node's latest, which is the one in use. The earlier place is kept for when the latest goes away, if the
  /// file may have both links.
  mutating func place(_ slot: UInt32, parent: UInt32, name: UnsafePointer<CChar>) {
    let node = nodes[Int(slot)]
    guard let current = node.name, !isPlaced(slot, parent: parent, name) else { return }
    nodes[Int(slot)].wasLinked = true
    if otherPlaces[slot]?.count ?? 0 < 8 {
      // A stored place counts as a reference to its directory, as the current one does.
      nodes[Int(node.parent)].children += 1
      otherPlaces[slot, default: []].append((node.parent, CName(copying: current), node.isKept))
    }
    let wasKept = otherPlaces[slot]?.first { $0.parent == parent && $0.name.equals(name) }?.isKept
    dropOtherPlace(slot, parent: parent, name: name)
    setPlace(slot, parent: parent, name: name)
    nodes[Int(slot)].isKept = wasKept ?? false
  }

  mutating func dropOtherPlace(_ slot: UInt32, parent: UInt32, name: UnsafePointer<CChar>) {
    guard let index = otherPlaces[slot]?.firstIndex(where: { $0.parent == parent && $0.name.equals(name) })
    else { return }
    otherPlaces[slot]!.remove(at: index)
    if otherPlaces[slot]!.isEmpty { otherPlaces[slot] = nil }
    letGo(of: parent)
  }

  mutating func dropOtherPlaces(_ slot: UInt32) {
    for place in otherPlaces.removeValue(forKey: slot) ?? [] { letGo(of: place.parent) }
  }

  private mutating func letGo(of parent: UInt32) {
    nodes[Int(parent)].children -= 1
    releaseIfUnused(parent)
  }

  mutating func setPlace(_ slot: UInt32, parent: UInt32, name: UnsafePointer<CChar>) {
    let copy = strdup(name)
    places.remove(slot, hash: placeHash(slot))
    free(nodes[Int(slot)].name)
    nodes[Int(slot)].name = copy
    let old = nodes[Int(slot)].parent
    nodes[Int(slot)].parent = parent
    insertPlace(slot)
    guard old != parent else { return }
    nodes[Int(parent)].children += 1
    letGo(of: old)
  }

  mutating func releaseIfUnused(_ start: UInt32) {
    var slot = start
    while slot > 1, nodes[Int(slot)].lookups == 0, nodes[Int(slot)].children == 0,
      nodes[Int(slot)].name != nil
    {
      let node = nodes[Int(slot)]
      if node.isIndexed { index.remove(slot, hash: NodeIndex.hash(node.identity, node.facet)) }
      places.remove(slot, hash: placeHash(slot))
      free(node.name)
      nodes[Int(slot)].name = nil
      nodes[Int(slot)].identity = FileIdentity(device: 0, inode: 0)
      dropOtherPlaces(slot)
      released.append(slot)
      nodes[Int(node.parent)].children -= 1
      slot = node.parent
    }
  }

  mutating func shrink() {
    guard released.isEmpty, beingReleased == 0 else { return }
    while let last = nodes.last, last.name == nil, nodes.count > 2 { nodes.removeLast() }
    nodes = nodes.withUnsafeBufferPointer { ContiguousArray($0) }
    let end = nodes.count
    free = free.filter { $0 < end }
    // The lowest numbers are reused first, so that the end of the table becomes free.
    free.sort(by: >)
    index.fit { NodeIndex.hash(nodes[Int($0)].identity, nodes[Int($0)].facet) }
    places.fit { Self.placeHash(nodes[Int($0)]) }
  }

  private func free(_ pointer: UnsafeMutablePointer<CChar>?) { Glibc.free(pointer) }
}
