/// Values by node. The least recently used ones can be removed.
///
/// Methods return the values that they remove or replace. If such a value may hold the last reference to a descriptor, the caller
/// must release it after the lock that protects this structure: close(2) of a removed file frees its blocks, which takes as long
/// as the disk needs.
struct RecentlyUsed<Value> {
  private var entries = NodeMap<(value: Value, used: UInt64)>()
  private var clock: UInt64 = 0

  var count: Int { entries.count }

  var all: [(id: NodeID, value: Value)] { entries.map { (id: $0, value: $1.value) } }

  /// The value of a node. This access does not count as a use.
  subscript(_ id: NodeID) -> Value? { entries[id]?.value }

  /// The value of a node. This access counts as a use.
  mutating func use(_ id: NodeID) -> Value? {
    clock += 1
    let now = clock
    return entries.withValue(of: id) { entry in
      entry.used = now
      return entry.value
    }
  }

  /// - Returns: the value that is replaced.
  mutating func insert(_ value: Value, for id: NodeID) -> Value? {
    clock += 1
    return entries.insert((value, clock), for: id)?.value
  }

  mutating func remove(_ id: NodeID) -> Value? { entries.remove(id)?.value }

  mutating func removeAll() -> [Value] {
    defer { entries = NodeMap() }
    return entries.map { $1.value }
  }

  /// Removes the `count` least recently used values. This sorts all nodes, so removing many at a time costs little for each.
  /// Numbers are sorted, not values, of which each move would count references.
  mutating func removeOldest(_ count: Int) -> [Value] {
    let oldest = entries.map { (id: $0, used: $1.used) }.sorted { $0.used < $1.used }.prefix(count)
    return oldest.map { entries.remove($0.id)!.value }
  }
}
