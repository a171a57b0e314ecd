import BackingTree
import DisplayNames
import Glibc

/// An open-addressed hash table of 32-bit node numbers, keyed by a file's identity or by its link (parent and name). The keys
/// are stored in the nodes.
///
/// It takes eight bytes or more per node; a dictionary keyed by the identity costs three times the memory and the time.
struct NodeIndex {
  private static let tombstone = UInt32.max
  private var slots: [UInt32] = [UInt32](repeating: 0, count: 64)
  private var used = 0

  static func hash(_ identity: FileIdentity, _ nodeKind: NodeKind) -> Int {
    KeyedHash.hash(identity.inode, identity.device << 1 | UInt64(nodeKind.rawValue))
  }

  static func hash(parent: UInt32, _ name: UnsafePointer<CChar>) -> Int {
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    return KeyedHash.hash(
      UInt64(bitPattern: Int64(NameHash.hash(of: Span(_unsafeElements: bytes)))), UInt64(parent))
  }

  static func hash(nodeid: UInt64) -> Int { KeyedHash.hash(nodeid, 0) }

  func find(hash: Int, where isMatch: (UInt32) -> Bool) -> UInt32? {
    let mask = slots.count - 1
    var position = hash & mask
    while slots[position] != 0 {
      if slots[position] != Self.tombstone, isMatch(slots[position]) { return slots[position] }
      position = (position + 1) & mask
    }
    return nil
  }

  /// Adds a number that is not in the table yet; `rehash` gives the hash of any number in it.
  mutating func insert(_ slot: UInt32, hash: Int, rehash: (UInt32) -> Int = { _ in 0 }) {
    if (used + 1) * 2 > slots.count { resize(rehash: rehash) }
    if !put(slot, hash: hash) { used += 1 }
  }

  /// Resizes the table to fit its members, which may make it larger.
  mutating func resize(rehash: (UInt32) -> Int) {
    let members = slots.filter { $0 != 0 && $0 != Self.tombstone }
    var capacity = 64
    while capacity < (members.count + 1) * 4 { capacity *= 2 }
    slots = [UInt32](repeating: 0, count: capacity)
    used = members.count
    for member in members { put(member, hash: rehash(member)) }
  }

  /// - Returns: whether the number took the cell of a removed one.
  @discardableResult
  private mutating func put(_ slot: UInt32, hash: Int) -> Bool {
    let mask = slots.count - 1
    var position = hash & mask
    while slots[position] != 0, slots[position] != Self.tombstone { position = (position + 1) & mask }
    defer { slots[position] = slot }
    return slots[position] != 0
  }

  mutating func remove(_ slot: UInt32, hash: Int) {
    let mask = slots.count - 1
    var position = hash & mask
    while slots[position] != 0 {
      if slots[position] == slot {
        slots[position] = Self.tombstone
        return
      }
      position = (position + 1) & mask
    }
  }
}
