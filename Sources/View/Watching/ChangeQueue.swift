import BackingTree
import Synchronization

/// The work of the change loop (`View.runChangeLoop`): directories that have pending changes, and changes of the view that are
/// not yet reported.
///
/// The thread that refreshes a directory view adds the differences. The change loop, one thread, refreshes the remaining views
/// and reports all changes. No thread waits for the change loop.
final class ChangeQueue: Sendable {
  private struct State {
    /// The view is kept so that it is refreshed even if its cache drops it meanwhile.
    var dirtyDirectories: [(directory: DirectoryChanges, view: DirectoryView?)] = []
    var droppedViews: [DirectoryView] = []
    var changes: [ViewChange] = []
    var inspectedDirectories: Set<FileIdentity> = []
    var isCollecting = false
  }

  private let state = Guarded(State())
  /// Whether the content of any file may decide how the file is listed, as that of an alias does.
  let doesContentAffectListing = Atomic(false)
  /// Whether the permissions of a directory may decide how its entries are listed.
  let doPermissionsAffectListing: Bool
  private let watch: ChangeWatch?

  init(watch: ChangeWatch?, doPermissionsAffectListing: Bool) {
    self.watch = watch
    self.doPermissionsAffectListing = doPermissionsAffectListing
  }

  /// Starts collecting changes for the change loop; before, none are kept.
  func startCollectingChanges() { state.withLock { $0.isCollecting = true } }

  func stopChangeLoop() {
    state.discard { state in
      defer { state = State() }
      return state
    }
    watch?.wake()
  }

  var isCollecting: Bool { state.withLock { $0.isCollecting } }

  /// Called when a directory has pending changes.
  func markDirty(_ directory: DirectoryChanges, _ view: DirectoryView?) {
    let isFirst = state.withLock { state in
      guard state.isCollecting else { return false }
      state.dirtyDirectories.append((directory, view))
      return state.dirtyDirectories.count == 1
    }
    if isFirst { watch?.wake() }
  }

  /// Called when a view was dropped from the cache while it was in use.
  func noteDropped(_ view: DirectoryView) {
    let isCollecting = state.withLock { state in
      if state.isCollecting { state.droppedViews.append(view) }
      return state.isCollecting
    }
    if isCollecting { watch?.wake() }
  }

  /// Called when a directory that may be a package was inspected again in the one that it lies in.
  func noteInspected(_ directory: FileIdentity) {
    guard let watch else { return }
    let isFirst = state.withLock { state in
      state.isCollecting && state.inspectedDirectories.insert(directory).inserted
        && state.inspectedDirectories.count == 1
    }
    if isFirst { watch.wake() }
  }

  func report(_ changes: [ViewChange]) {
    guard !changes.isEmpty else { return }
    let isFirst = state.withLock { state in
      guard state.isCollecting else { return false }
      state.changes += changes
      return state.changes.count == changes.count
    }
    if isFirst { watch?.wake() }
  }

  /// Removes and returns the pending changes of all directories, or of those that match.
  func takeDirtyDirectories(where isMatch: (NodeID) -> Bool = { _ in true }) -> [DirectoryChanges.LoopWork] {
    let (taken, isAnyLeft) = state.withLock { state in
      let taken = state.dirtyDirectories.filter { isMatch($0.directory.node) }
      state.dirtyDirectories.removeAll { isMatch($0.directory.node) }
      return (taken, !state.dirtyDirectories.isEmpty)
    }
    // The wake-up for these may have been drained.
    if isAnyLeft { watch?.wake() }
    return taken.map { $0.directory.takeForLoop() }
  }

  func takeDroppedViews() -> [DirectoryView] {
    state.withLock { state in
      defer { state.droppedViews = [] }
      return state.droppedViews
    }
  }

  func takeInspectedDirectories() -> Set<FileIdentity> {
    state.withLock { state in
      defer { state.inspectedDirectories = [] }
      return state.inspectedDirectories
    }
  }

  func takeChanges() -> [ViewChange] {
    state.withLock { state in
      defer { state.changes = [] }
      return state.changes
    }
  }
}
