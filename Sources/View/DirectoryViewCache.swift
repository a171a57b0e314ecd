import BackingTree
import Glibc

/// The directory views in use, by node: the least recently used go first.
final class DirectoryViewCache: Sendable {
  /// A view keeps one descriptor and one watch: a quarter of the descriptors that the process may have.
  private let limit = max(64, min(4096, DescriptorLimit.count / 4))

  private let views = Guarded(RecentlyUsed<DirectoryView>())

  func view(of id: NodeID) -> DirectoryView? { views.withLock { $0.use(id) } }

  /// Keeps a view unless another thread was faster and its view holds. - Returns: the one that is kept, and those that had
  /// to go.
  func insert(
    _ view: DirectoryView, for id: NodeID, unless holds: (DirectoryView) -> Bool
  ) -> (kept: DirectoryView, dropped: [DirectoryView]) {
    if let other = self.view(of: id), holds(other) { return (other, []) }
    views.discard { $0.insert(view, for: id) }
    return (view, views.withLock { $0.count > limit ? $0.removeOldest(limit / 4).map(\.value) : [] })
  }

  /// Lets go of a quarter of the views, with their watches. - Returns: those.
  func removeOldest() -> [DirectoryView] {
    views.withLock { $0.removeOldest(($0.count + 3) / 4).map(\.value) }
  }

  var count: Int { views.withLock { $0.count } }

  var all: [(id: NodeID, view: DirectoryView)] {
    views.withLock { $0.all.map { (id: $0.id, view: $0.value) } }
  }

  func remove(_ id: NodeID) { views.discard { $0.remove(id) } }

  /// - Returns: what there was.
  func removeAll() -> [DirectoryView] { views.withLock { $0.removeAll() } }
}
