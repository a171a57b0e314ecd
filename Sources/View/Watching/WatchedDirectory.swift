import BackingTree
import DisplayNames
import SystemPackage

/// What the daemon holds of a directory for as long as the kernel may cache anything of it, or the directory has a view. All that
/// time it is watched.
package final class WatchedDirectory: Sendable {
  let identity: FileIdentity
  let changes: DirectoryChanges
  /// Nil where the directory cannot be watched: then it has a view only, which compares times.
  let subscription: ChangeWatch.Subscription?

  /// The names of which the kernel may hold negative entries.
  private let negativeEntries = Guarded(NegativeEntries())

  var node: NodeID { changes.node }

  /// - Throws: ENOSPC when the user has no watch left.
  init(_ node: NodeID, _ handle: DirectoryHandle, by watch: ChangeWatch, queue: ChangeQueue) throws(Errno) {
    let changes = DirectoryChanges(node: node, queue: queue)
    self.changes = changes
    identity = handle.identity
    subscription = try watch.watch(
      handle.directory, on: handle.identity.device, receivesSelfEvents: false
    ) { changes.note($0) }
  }

  /// A directory that is not watched.
  init(unwatched handle: DirectoryHandle, _ node: NodeID, queue: ChangeQueue) {
    changes = DirectoryChanges(node: node, queue: queue)
    identity = handle.identity
    subscription = nil
  }

  // MARK: Negative entries

  /// Records that the kernel is about to cache a negative entry.
  ///
  /// - Parameter matching: how the name is compared with those of entries that appear.
  /// - Returns: false when it must not.
  func noteNegativeEntry(_ name: Name, _ matching: NameMatching = .exact) -> Bool {
    negativeEntries.withLock { $0.insert(name, matching) }
  }

  /// The names that may resolve now that an entry has the name `name`, and of which the kernel may hold negative entries: this
  /// name, and those that are equal to it by `matching`.
  func negativeEntries(equalTo name: Name, by matching: NameMatching) -> [NegativeEntry] {
    negativeEntries.withLock { $0.entries(equalTo: name, by: matching) }
  }

  /// All names of which the kernel may hold negative entries.
  var allNegativeEntries: [NegativeEntry] { negativeEntries.withLock { $0.all } }

  /// Invalidates negative entries before the next path walk: a change may make one of the names resolve while the message is
  /// queued.
  func invalidate(_ entries: [NegativeEntry], in kernel: any KernelCacheInvalidator) {
    guard !entries.isEmpty else { return }
    kernel.invalidateBeforeNextWalk(entries.map { StaleName($0, in: node) })
    removeNegativeEntries(entries)
  }

  /// Called once the invalidation of these negative entries is queued.
  func removeNegativeEntries(_ entries: [NegativeEntry]) {
    if !entries.isEmpty { negativeEntries.withLock { $0.remove(entries) } }
  }

  /// Called after a change by which the kernel itself dropped the negative entry of a name.
  func removeNegativeEntry(_ name: Name) { negativeEntries.withLock { $0.remove(name) } }

  var hasNegativeEntries: Bool { negativeEntries.withLock { !$0.isEmpty } }
}
