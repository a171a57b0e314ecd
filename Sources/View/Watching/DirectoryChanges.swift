import BackingTree
import DisplayNames
import Synchronization

/// The changes of one directory: how many there were, and which are not processed yet.
///
/// The handler of the directory's watch keeps this object alive. So it refers neither to the watch nor strongly to the view.
final class DirectoryChanges: Sendable {
  /// What the change loop has to process of one directory.
  struct LoopWork {
    let directory: DirectoryChanges
    let stale: PendingChanges.Stale
    let unreported: PendingChanges.Unreported
    /// The view, if it is to be brought up to date.
    let view: DirectoryView?
  }

  let node: NodeID
  /// The number of changes that the watch reported or that were made through the mount, pure content changes excepted.
  private let changes = Atomic<UInt64>(0)
  /// The number of changes of nothing but the content of files in it. They affect neither names nor the directory itself.
  private let contentChanges = Atomic<UInt64>(0)
  /// Whether the directory is among those whose changes are invalidated in the kernel's caches.
  private let isCached = Atomic<Bool>(false)
  private let pending = Guarded(PendingChanges())
  private let queue: ChangeQueue

  init(node: NodeID, queue: ChangeQueue) {
    self.node = node
    self.queue = queue
  }

  var count: UInt64 { changes.load(ordering: .acquiring) }
  var contentCount: UInt64 { contentChanges.load(ordering: .acquiring) }

  /// Nothing may be cached of a directory that is not among the cached ones: every version of it is stale.
  var mayBeCached: Bool { isCached.load(ordering: .acquiring) }

  /// Called with the table of cached directories locked.
  func setCached(_ value: Bool) { isCached.store(value, ordering: .releasing) }

  /// Records a change that was made through the mount.
  func noteOwnChange() { changes.add(1, ordering: .releasing) }

  /// Records a change that the watch reported.
  func note(_ change: ChangeWatch.Change) {
    // The kernel already knows of content that the daemon wrote on its behalf.
    let isContentOnly = change.isContentOnly && !queue.doesContentAffectListing.load(ordering: .relaxed)
    if isContentOnly, change.isOwnContent { return }
    // Count the change before it is queued: a worker whose reply may be stale then finds its version stale after the reply.
    if isContentOnly {
      contentChanges.add(1, ordering: .releasing)
    } else {
      changes.add(1, ordering: .releasing)
    }
    add {
      $0.add(change, isContentOnly: isContentOnly, hasView: $1, isCollecting: $2)
      if queue.doPermissionsAffectListing, $1, case .directoryAttributes = change {
        $0.inspectAgain { $0.haveOwnAttributesChanged = true }
      }
    }
  }

  /// Records something that the view has to inspect again.
  func inspectAgain(_ add: (inout PendingChanges.Uninspected) -> Void) {
    self.add { pending, _, _ in pending.inspectAgain(add) }
  }

  /// Records that the attributes of a directory in this one changed, which may decide how it is shown. The watch reports that of
  /// the directory itself.
  func noteAttributes(ofDirectory name: Name) {
    changes.add(1, ordering: .releasing)
    add { pending, hasView, _ in if hasView { pending.inspectAgain { $0.attributes.insert(name) } } }
  }

  private func add(_ body: (inout PendingChanges, _ hasView: Bool, _ isCollecting: Bool) -> Void) {
    let isCollecting = queue.isCollecting
    // Release the view after the lock: this may be the last reference to it.
    let (view, isFirst) = pending.withLock { pending -> (DirectoryView?, Bool) in
      let view = pending.view
      body(&pending, view != nil, isCollecting)
      let isFirst = isCollecting && !pending.isAnnounced
      if isFirst { pending.isAnnounced = true }
      return (view, isFirst)
    }
    if isFirst { queue.markDirty(self, view) }
  }

  /// The view of the directory, if one is in use.
  var view: DirectoryView? { pending.withLock { $0.view } }

  /// Makes `new` the view of the directory, to which changes are reported from now on, unless there is one already.
  ///
  /// - Returns: the view of the directory.
  func attach(_ new: DirectoryView) -> DirectoryView {
    pending.withLock { pending in
      if let view = pending.view { return view }
      pending.begin(for: new)
      return new
    }
  }

  /// The rules that the view has to inspect its entries by, if it has not yet.
  var pendingRules: DirectoryView.Rules? { pending.withLock { $0.rules } }

  /// Removes and returns what the view has to inspect; nil when that is nothing.
  func takeUninspected() -> PendingChanges.Uninspected? { pending.withLock { $0.takeUninspected() } }

  /// Removes and returns what the change loop has to process.
  func takeForLoop() -> LoopWork {
    let (stale, unreported, view) = pending.withLock { $0.takeForLoop() }
    return LoopWork(directory: self, stale: stale, unreported: unreported, view: view)
  }
}
