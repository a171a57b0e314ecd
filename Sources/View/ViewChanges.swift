import BackingTree

/// What has changed in the view and was not told yet, and which directory views have news to look at.
///
/// Whoever brings a directory view up to date reports what became different; one thread (`View.follow`) looks at the
/// rest and passes all of it on. Nobody ever waits for that thread.
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

  /// From now on somebody takes what is reported; before, nothing is kept.
  func startFollowing() { state.withLock { $0.isFollowed = true } }

  func stopFollowing() {
    state.withLock { $0 = State() }
    watch?.wake()
  }

  var isFollowed: Bool { state.withLock { $0.isFollowed } }

  /// The view has news that nobody may come to look at.
  func hasNews(_ view: DirectoryView) {
    let isFirst = state.withLock { state in
      guard state.isFollowed else { return false }
      state.unseen.append(view)
      return state.unseen.count == 1
    }
    if isFirst { watch?.wake() }
  }

  /// The view is no longer kept, and was in use when that was decided.
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
