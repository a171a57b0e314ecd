/// Values by node, of which those used longest ago can be let go.
struct RecentlyUsed<Value> {
  private var entries: [NodeID: (value: Value, used: UInt64)] = [:]
  private var clock: UInt64 = 0

  var count: Int { entries.count }

  var all: [(id: NodeID, value: Value)] { entries.map { (id: $0.key, value: $0.value.value) } }

  /// The value of a node, which does not count as a use.
  subscript(_ id: NodeID) -> Value? { entries[id]?.value }

  /// The value of a node, used now.
  mutating func use(_ id: NodeID) -> Value? {
    guard let index = entries.index(forKey: id) else { return nil }
    clock += 1
    entries.values[index].used = clock
    return entries.values[index].value
  }

  mutating func insert(_ value: Value, for id: NodeID) {
    clock += 1
    entries[id] = (value, clock)
  }

  @discardableResult
  mutating func remove(_ id: NodeID) -> Value? { entries.removeValue(forKey: id)?.value }

  /// Removes those used longest ago, and gives them. All are sorted for it: many at a time cost little each.
  mutating func removeOldest(_ count: Int) -> [(id: NodeID, value: Value)] {
    let oldest = entries.sorted { $0.value.used < $1.value.used }.prefix(count)
    for (id, _) in oldest { entries[id] = nil }
    return oldest.map { (id: $0.key, value: $0.value.value) }
  }
}
