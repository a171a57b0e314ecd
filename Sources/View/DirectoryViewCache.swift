import BackingTree

/// The directory views in use, by node: the least recently used go first.
final class DirectoryViewCache: Sendable {
  /// A view keeps one descriptor and one watch.
  private static let limit = 512

  private struct State {
    var views: [NodeID: (view: DirectoryView, used: UInt64)] = [:]
    var clock: UInt64 = 0
  }

  private let state = Guarded(State())

  func view(of id: NodeID) -> DirectoryView? {
    state.withLock { state in
      guard let found = state.views[id]?.view else { return nil }
      state.clock += 1
      state.views[id]!.used = state.clock
      return found
    }
  }

  /// Keeps a view unless another thread was faster and its view holds. - Returns: the one that is kept.
  func insert(_ view: DirectoryView, for id: NodeID, unless holds: (DirectoryView) -> Bool) -> DirectoryView {
    if let other = self.view(of: id), holds(other) { return other }
    return state.withLock { state in
      state.clock += 1
      state.views[id] = (view, state.clock)
      if state.views.count > Self.limit {
        for (id, _) in state.views.sorted(by: { $0.value.used < $1.value.used }).prefix(Self.limit / 4) {
          state.views[id] = nil
        }
      }
      return view
    }
  }

  var all: [(id: NodeID, view: DirectoryView)] {
    state.withLock { $0.views.map { (id: $0.key, view: $0.value.view) } }
  }

  func remove(_ id: NodeID) { state.withLock { _ = $0.views.removeValue(forKey: id) } }

  func removeAll() { state.withLock { $0.views.removeAll() } }
}
