/// Values by node. The least recently used ones can be removed.
///
/// Methods return the values that they remove or replace. If such a value may hold the last reference to a descriptor, the caller
/// must release it after the lock that protects this structure: close(2) of a removed file frees its blocks, which takes as long
/// as the disk needs.
struct RecentlyUsed<Value> {
  private var entries: [NodeID: (value: Value, used: UInt64)] = [:]
  private var clock: UInt64 = 0

  var count: Int { entries.count }

  var all: [(id: NodeID, value: Value)] { entries.map { (id: $0.key, value: $0.value.value) } }

  /// The value of a node. This access does not count as a use.
  subscript(_ id: NodeID) -> Value? { entries[id]?.value }

  /// The value of a node. This access counts as a use.
  mutating func use(_ id: NodeID) -> Value? {
    guard let index = entries.index(forKey: id) else { return nil }
    clock += 1
    entries.values[index].used = clock
    return entries.values[index].value
  }

  /// - Returns: the value that is replaced.
  mutating func insert(_ value: Value, for id: NodeID) -> Value? {
    clock += 1
    return entries.updateValue((value, clock), forKey: id)?.value
  }

  mutating func remove(_ id: NodeID) -> Value? { entries.removeValue(forKey: id)?.value }

  mutating func removeAll() -> [Value] {
    defer { entries = [:] }
    return entries.values.map(\.value)
  }

  /// Removes the `count` least recently used values. This sorts all values, so removing many at a time costs little for each.
  mutating func removeOldest(_ count: Int) -> [(id: NodeID, value: Value)] {
    let oldest = entries.sorted { $0.value.used < $1.value.used }.prefix(count)
    for (id, _) in oldest { entries[id] = nil }
    return oldest.map { (id: $0.key, value: $0.value.value) }
  }
}
