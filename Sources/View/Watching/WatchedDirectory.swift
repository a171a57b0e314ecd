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
  private let negativeEntries = Guarded<Set<Name>>([])

  /// The maximum number of negative entries in one directory: each has to be invalidated by name.
  private static let maximumNegativeEntries = 1024

  var node: NodeID { changes.node }

  /// - Throws: ENOSPC when the user has no watch left.
  init(_ node: NodeID, _ handle: DirectoryHandle, by watch: ChangeWatch, queue: ChangeQueue) throws(Errno) {
    let changes = DirectoryChanges(node: node, queue: queue)
    self.changes = changes
    identity = handle.identity
    subscription = try watch.watch(handle.directory, receivesSelfEvents: false) { changes.note($0) }
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
  /// - Returns: false when it must not.
  func noteNegativeEntry(_ name: Name) -> Bool {
    negativeEntries.withLock { negativeEntries in
      if negativeEntries.count < Self.maximumNegativeEntries { negativeEntries.insert(name) }
      return negativeEntries.contains(name)
    }
  }

  /// Removes a name from the record of negative entries.
  ///
  /// - Returns: whether the kernel may hold a negative entry of that name.
  func removeNegativeEntry(_ name: Name) -> Bool { negativeEntries.withLock { $0.remove(name) != nil } }

  /// Removes and returns all names of which the kernel may hold negative entries.
  func takeNegativeEntries() -> Set<Name> {
    negativeEntries.withLock { negativeEntries in
      defer { negativeEntries = [] }
      return negativeEntries
    }
  }

  var hasNegativeEntries: Bool { negativeEntries.withLock { !$0.isEmpty } }
}
