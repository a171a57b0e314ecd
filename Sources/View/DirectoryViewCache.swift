import BackingTree
import Glibc

/// The directory views in use, by node: the least recently used go first.
final class DirectoryViewCache: Sendable {
  /// A view keeps one descriptor and one watch: a quarter of the descriptors that the process may have.
  private let limit = max(64, min(4096, DescriptorLimit.count / 4))

  private struct State {
    var views: [NodeID: (view: DirectoryView, used: UInt64)] = [:]
    var clock: UInt64 = 0

    mutating func removeOldest(_ count: Int) -> [DirectoryView] {
      let oldest = views.sorted { $0.value.used < $1.value.used }.prefix(count)
      for (id, _) in oldest { views[id] = nil }
      return oldest.map(\.value.view)
    }
  }

  private let state = Guarded(State())

  func view(of id: NodeID) -> DirectoryView? {
    state.withLock { state in
      guard let index = state.views.index(forKey: id) else { return nil }
      state.clock += 1
      state.views.values[index].used = state.clock
      return state.views.values[index].view
    }
  }

  /// Keeps a view unless another thread was faster and its view holds. - Returns: the one that is kept, and those that had
  /// to go.
  func insert(
    _ view: DirectoryView, for id: NodeID, unless holds: (DirectoryView) -> Bool
  ) -> (kept: DirectoryView, dropped: [DirectoryView]) {
    if let other = self.view(of: id), holds(other) { return (other, []) }
    return state.withLock { state in
      state.clock += 1
      state.views[id] = (view, state.clock)
      return (view, state.views.count > limit ? state.removeOldest(limit / 4) : [])
    }
  }

  /// Lets go of a quarter of the views, with their watches. - Returns: those.
  func removeOldest() -> [DirectoryView] { state.withLock { $0.removeOldest(($0.views.count + 3) / 4) } }

  var count: Int { state.withLock { $0.views.count } }

  var all: [(id: NodeID, view: DirectoryView)] {
    state.withLock { $0.views.map { (id: $0.key, view: $0.value.view) } }
  }

  func remove(_ id: NodeID) { state.withLock { _ = $0.views.removeValue(forKey: id) } }

  /// - Returns: what there was.
  func removeAll() -> [DirectoryView] { state.withLock { $0.removeOldest($0.views.count) } }
}
