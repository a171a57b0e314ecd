import BackingTree

/// The work of the change loop (`View.follow`): directories that have pending changes, and changes of the view that are not yet
/// reported.
///
/// The thread that refreshes a directory view adds the differences. The change loop, one thread, refreshes the remaining views
/// and reports all changes. No thread waits for the change loop.
final class ViewChanges: Sendable {
  private struct State {
    /// The view is kept so that it is refreshed even if its cache drops it meanwhile.
    var unseen: [(directory: DirectoryChanges, view: DirectoryView?)] = []
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
    state.discard { state in
      defer { state = State() }
      return state
    }
    watch?.wake()
  }

  var isFollowed: Bool { state.withLock { $0.isFollowed } }

  /// Called when a directory has pending changes.
  func hasNews(_ directory: DirectoryChanges, _ view: DirectoryView?) {
    let isFirst = state.withLock { state in
      guard state.isFollowed else { return false }
      state.unseen.append((directory, view))
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

  /// Removes and returns the pending changes of all directories.
  func takeUnseen() -> [DirectoryChanges.Taken] {
    let unseen = state.withLock { state in
      defer { state.unseen = [] }
      return state.unseen
    }
    return unseen.map { $0.directory.takeForLoop() }
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
