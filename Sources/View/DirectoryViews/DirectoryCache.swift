import BackingTree

/// What is open of the most recently used directories, by node. It bounds the number of descriptors, whatever the number of nodes.
final class DirectoryCache<Value: Sendable>: Sendable {
  private let limit: Int
  private let values = Guarded(RecentlyUsed<Value>())

  init(limit: Int) { self.limit = limit }

  func value(of id: NodeID) -> Value? { values.withLock { $0.use(id) } }

  func insert(_ value: Value, for id: NodeID) {
    values.discard { values -> (Value?, [Value]) in
      let replaced = values.insert(value, for: id)
      let surplus = values.count > limit ? values.removeOldest(limit / 4) : []
      return (replaced, surplus)
    }
  }

  func removeAll() { values.discard { $0.removeAll() } }

  func remove(_ id: NodeID) { values.discard { $0.remove(id) } }
}
