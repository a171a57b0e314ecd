import BackingTree

/// Changes of the view that are not yet reported, and the directory views that have pending changes.
///
/// The thread that refreshes a directory view adds the differences. The change loop (`View.follow`), one thread, refreshes the
/// remaining views and reports all changes. No thread waits for the change loop.
final class ViewChanges: Sendable {
  private struct State {
    var unseen: [DirectoryView] = []
    var letGo: [DirectoryView] = []
    var changes: [ViewChange] = []
    var isFollowed = false
  }

  private let state = Guarded(State())
  private let watch: ChangeWatch?

  init(watch: ChangeWatch?) { self.watch = watch }

  /// Starts collecting changes for the change loop; before, none are kept.
  func startFollowing() { state.withLock { $0.isFollowed = true } }

  func stopFollowing() {
    state.withLock { $0 = State() }
    watch?.wake()
  }

  var isFollowed: Bool { state.withLock { $0.isFollowed } }

  /// Called when a view has pending changes: there may be no request that refreshes it.
  func hasNews(_ view: DirectoryView) {
    let isFirst = state.withLock { state in
      guard state.isFollowed else { return false }
      state.unseen.append(view)
      return state.unseen.count == 1
    }
    if isFirst { watch?.wake() }
  }

  /// Called when a view was dropped from the cache while it was in use.
  func isLetGo(_ view: DirectoryView) {
    let isFollowed = state.withLock { state in
      if state.isFollowed { state.letGo.append(view) }
      return state.isFollowed
    }
    if isFollowed { watch?.wake() }
  }

  func report(_ changes: [ViewChange]) {
    guard !changes.isEmpty else { return }
    let isFirst = state.withLock { state in
      guard state.isFollowed else { return false }
      state.changes += changes
      return state.changes.count == changes.count
    }
    if isFirst { watch?.wake() }
  }

  func takeUnseen() -> [DirectoryView] {
    state.withLock { state in
      defer { state.unseen = [] }
      return state.unseen
    }
  }

  func takeLetGo() -> [DirectoryView] {
    state.withLock { state in
      defer { state.letGo = [] }
      return state.letGo
    }
  }

  func takeChanges() -> [ViewChange] {
    state.withLock { state in
      defer { state.changes = [] }
      return state.changes
    }
  }
}
