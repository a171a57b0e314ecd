import BackingTree
import Glibc

/// The inode table: the files that the kernel knows, by number and by identity, and how long each of them lives.
///
/// The number of a node is its slot. A slot is reused:
/// ```
///   free ── add ──> in use ── release ──> released ── takeReleased ──> being released ── reuse ──> free
/// ```
/// The kernel distinguishes files that had the same number by their generation.
struct Inodes {
  /// What a lookup by identity finds of a node.
  enum IndexState: UInt8 {
    /// A lookup by identity finds the node.
    case current
    /// It finds another node or none, though the file is the same. The processes that use the node keep it.
    case unindexed
    /// The file's last name is gone: its inode number may belong to another file by now.
    case orphaned
    /// The slot has no node.
    case free
  }

  /// The record of a slot, 40 bytes.
  struct Inode {
    fileprivate(set) var identity: FileIdentity
    /// The number of replies with this node that the kernel has not forgotten. (nlookup)
    fileprivate(set) var nlookup: UInt64
    /// Of the slot: another node in it has another one. In an exported view it is the nodeid.
    let generation: UInt64
    /// The number of links below this node: a directory's node stays while something below it is known.
    fileprivate(set) var linksBelow: UInt32 = 0
    fileprivate(set) var birth: Birth
    let type: FileType
    /// The kind of the node and the state of the index. In one byte, as the record would be 48 bytes long otherwise.
    private var kindAndState: UInt8

    var nodeKind: NodeKind { NodeKind(rawValue: kindAndState & 0xf)! }

    fileprivate(set) var indexState: IndexState {
      get { IndexState(rawValue: kindAndState >> 4)! }
      set { kindAndState = newValue.rawValue << 4 | kindAndState & 0xf }
    }

    /// A record in the index.
    fileprivate init(
      _ identity: FileIdentity, _ type: FileType, _ nodeKind: NodeKind, birth: Birth = .unknown,
      nlookup: UInt64 = 1, generation: UInt64 = 0
    ) {
      self.identity = identity
      self.nlookup = nlookup
      self.generation = generation
      self.birth = birth
      self.type = type
      kindAndState = nodeKind.rawValue
      indexState = .current
    }
  }

  /// What a node is found by, with its hash.
  struct Key {
    let identity: FileIdentity
    let nodeKind: NodeKind
    let hash: Int

    init(_ identity: FileIdentity, _ nodeKind: NodeKind) {
      self.identity = identity
      self.nodeKind = nodeKind
      hash = NodeIndex.hash(identity, nodeKind)
    }
  }

  private static let none = FileIdentity(device: 0, inode: 0)

  /// Slot 0 is never used, and slot 1 is the root's.
  private var slots: ContiguousArray<Inode>
  private var index = NodeIndex()
  /// The nodes by nodeid in an exported view; nil where the nodeid is the slot.
  private var byNodeid: NodeIndex?
  private var free: [UInt32] = []
  private var released: [UInt32] = []
  /// The number of slots that were taken from `released` and are not free yet.
  private var releasing = 0
  private var generation: UInt64 = 1

  init(root: FileIdentity, isExported: Bool) {
    slots = [Inode(Self.none, .directory, .plain, nlookup: 0), Inode(root, .directory, .plain)]
    slots[0].indexState = .free
    index.insert(1, hash: NodeIndex.hash(root, .plain))
    if isExported {
      byNodeid = NodeIndex()
      // Temporary nodeids of earlier daemons are smaller, unless these made 2^28 nodes in each second.
      generation = UInt64(time(nil)) << 28
    }
  }

  var count: Int { slots.count - 1 - free.count - released.count - releasing }

  // MARK: Finding

  /// A slot that has a node.
  @inline(__always) subscript(slot: UInt32) -> Inode { slots[Int(slot)] }

  /// The slot of a number; nil when there is no such node.
  @inline(__always) func slot(of id: NodeID) -> UInt32? {
    Int(id.slot) < slots.count && slots[Int(id.slot)].indexState != .free ? id.slot : nil
  }

  func find(_ key: Key) -> UInt32? {
    index.find(hash: key.hash) {
      slots[Int($0)].identity == key.identity && slots[Int($0)].nodeKind == key.nodeKind
    }
  }

  /// The nodes with a device number that a lookup by identity finds, without the root.
  func slots(on device: UInt64) -> [UInt32] {
    slots.indices.dropFirst(2).filter {
      slots[$0].indexState == .current && slots[$0].identity.device == device
    }.map { UInt32($0) }
  }

  // MARK: Nodeids

  var isExported: Bool { byNodeid != nil }

  /// The number by which the kernel knows a node.
  func nodeid(of slot: UInt32) -> UInt64 {
    isExported && slot != 1 ? slots[Int(slot)].generation : UInt64(slot)
  }

  func slot(ofNodeid nodeid: UInt64) -> UInt32? {
    guard let byNodeid, nodeid != 1 else { return slot(of: NodeID(UInt32(truncatingIfNeeded: nodeid))) }
    return byNodeid.find(hash: NodeIndex.hash(nodeid: nodeid)) { slots[Int($0)].generation == nodeid }
  }

  /// The nodeids of some nodes, and the slot after the last of them, 0 at the end.
  func nodeids(from first: Int, most: Int) -> (nodeids: [UInt64], next: Int) {
    var (nodeids, slot): ([UInt64], Int) = ([], max(2, first))
    nodeids.reserveCapacity(most)
    while slot < slots.count, nodeids.count < most {
      if slots[slot].indexState != .free { nodeids.append(nodeid(of: UInt32(slot))) }
      slot += 1
    }
    return (nodeids, slot < slots.count ? slot : 0)
  }

  // MARK: Lifetime

  /// Adds a node with an nlookup of one.
  ///
  /// - Parameter durable: the nodeid in an exported view; nil where the file has none that lasts.
  mutating func add(_ key: Key, _ type: FileType, _ birth: Birth, _ durable: DurableNodeID?) -> UInt32 {
    generation += 1
    let nodeid = isExported ? (durable ?? .temporary(generation)).rawValue : generation
    let new = Inode(key.identity, type, key.nodeKind, birth: birth, generation: nodeid)
    let slot: UInt32
    if let reused = free.popLast() {
      slot = reused
      slots[Int(slot)] = new
    } else {
      slot = UInt32(slots.count)
      slots.append(new)
    }
    index.insert(slot, hash: key.hash) { Self.hash(slots[Int($0)]) }
    byNodeid?.insert(slot, hash: NodeIndex.hash(nodeid: nodeid)) {
      NodeIndex.hash(nodeid: slots[Int($0)].generation)
    }
    return slot
  }

  mutating func lookUp(_ slot: UInt32) { slots[Int(slot)].nlookup += 1 }

  /// Records the birth of a node's directory, if it is known. The one recorded before may have been read while the directory was
  /// removed and made again.
  mutating func noteBirth(_ birth: Birth, of slot: UInt32) {
    if birth != .unknown { slots[Int(slot)].birth = birth }
  }

  mutating func forget(_ slot: UInt32, count: UInt64) {
    slots[Int(slot)].nlookup -= min(count, slots[Int(slot)].nlookup)
  }

  /// Counts a link below a directory.
  mutating func addLink(of directory: UInt32) { slots[Int(directory)].linksBelow += 1 }
  mutating func removeLink(of directory: UInt32) { slots[Int(directory)].linksBelow -= 1 }

  /// Removes a node from the index by identity.
  ///
  /// - Parameter indexState: why.
  mutating func unindex(_ slot: UInt32, _ indexState: IndexState) {
    index.remove(slot, hash: Self.hash(slots[Int(slot)]))
    slots[Int(slot)].indexState = indexState
  }

  /// Lets a lookup by identity find a node again.
  mutating func reindex(_ slot: UInt32) {
    if slots[Int(slot)].indexState == .current { return }
    slots[Int(slot)].indexState = .current
    index.insert(slot, hash: Self.hash(slots[Int(slot)])) { Self.hash(slots[Int($0)]) }
  }

  /// Whether nothing needs the node any more: the kernel has forgotten it, and no node lies below it.
  func isUnused(_ slot: UInt32) -> Bool {
    let inode = slots[Int(slot)]
    return slot > 1 && inode.nlookup == 0 && inode.linksBelow == 0 && inode.indexState != .free
  }

  mutating func release(_ slot: UInt32) {
    if slots[Int(slot)].indexState == .current { index.remove(slot, hash: Self.hash(slots[Int(slot)])) }
    byNodeid?.remove(slot, hash: NodeIndex.hash(nodeid: slots[Int(slot)].generation))
    slots[Int(slot)].indexState = .free
    slots[Int(slot)].identity = Self.none
    released.append(slot)
  }

  // MARK: Reuse of numbers

  var isAnyReleased: Bool { !released.isEmpty }

  mutating func takeReleased() -> [UInt32] {
    defer {
      releasing += released.count
      released = []
    }
    return released
  }

  mutating func reuse(_ slots: [UInt32]) {
    free += slots
    releasing -= slots.count
  }

  /// Drops the free slots at the end. - Returns: the number of slots; nil while slots are being released.
  mutating func shrink() -> Int? {
    guard released.isEmpty, releasing == 0 else { return nil }
    while slots.count > 2, slots.last!.indexState == .free { slots.removeLast() }
    slots = slots.withUnsafeBufferPointer { ContiguousArray($0) }
    let end = slots.count
    free = free.filter { $0 < end }
    // The lowest numbers are reused first, so that the end of the table becomes free.
    free.sort(by: >)
    index.resize { Self.hash(slots[Int($0)]) }
    byNodeid?.resize { NodeIndex.hash(nodeid: slots[Int($0)].generation) }
    return end
  }

  private static func hash(_ inode: Inode) -> Int { NodeIndex.hash(inode.identity, inode.nodeKind) }
}
