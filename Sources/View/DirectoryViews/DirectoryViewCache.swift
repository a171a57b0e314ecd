import BackingTree
import Glibc

/// The directory views in use, by node. The least recently used views are dropped first.
final class DirectoryViewCache: Sendable {
  /// Each view holds one descriptor and one watch. The limit is a quarter of the descriptors that the process may have.
  private let limit = max(64, min(4096, DescriptorLimit.count / 4))

  private let views = Guarded(RecentlyUsed<DirectoryView>())

  func view(of id: NodeID) -> DirectoryView? { views.withLock { $0.use(id) } }

  /// Inserts a view unless another thread has already inserted one that still holds.
  ///
  /// - Returns: the view that is kept, and the views that were dropped for it.
  func insert(
    _ view: DirectoryView, for id: NodeID, unless holds: (DirectoryView) -> Bool
  ) -> (kept: DirectoryView, dropped: [DirectoryView]) {
    if let other = self.view(of: id), holds(other) { return (other, []) }
    views.discard { $0.insert(view, for: id) }
    // The calling thread serves a client, which waits until the dropped views are gone: some 10 µs for each.
    return (view, views.withLock { $0.count > limit ? $0.removeOldest(limit / 32) : [] })
  }

  /// Drops the least recently used quarter of the views.
  ///
  /// - Returns: the dropped views.
  func removeOldest() -> [DirectoryView] {
    views.withLock { $0.removeOldest(($0.count + 3) / 4) }
  }

  var count: Int { views.withLock { $0.count } }

  var all: [(id: NodeID, view: DirectoryView)] {
    views.withLock { $0.all.map { (id: $0.id, view: $0.value) } }
  }

  func remove(_ id: NodeID) { views.discard { $0.remove(id) } }

  /// - Returns: the views that were removed.
  func removeAll() -> [DirectoryView] { views.withLock { $0.removeAll() } }
}
