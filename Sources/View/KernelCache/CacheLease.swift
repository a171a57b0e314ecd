import BackingTree
import DisplayNames

/// A snapshot of a directory's change counts. What a reply says of the directory, or of something in it, holds until the lease
/// is broken.
///
/// A worker takes it before it looks at the backing tree. A change may break it while the reply is on its way, when an
/// invalidation would come too early. So the worker checks the lease again after it has replied (`View.settle`).
public struct CacheLease: Sendable {
  let directory: WatchedDirectory
  private var count: UInt64
  private let contentCount: UInt64

  init(_ directory: WatchedDirectory) {
    self.directory = directory
    count = directory.changes.count
    contentCount = directory.changes.contentCount
  }

  /// Whether a reply about what a name stands for may be stale.
  public var isBroken: Bool { directory.changes.count != count }

  /// Whether a reply with the attributes of the directory, or of a file in it, may be stale.
  func isBroken(for node: NodeID) -> Bool {
    isBroken || node != directory.node && directory.changes.contentCount != contentCount
  }

  /// Records that the kernel is about to cache a negative entry.
  ///
  /// - Returns: false when it must not.
  func noteAbsent(_ name: Name) -> Bool { directory.noteAbsent(name) }

  /// Records a change of the directory by the holder of this lease: it breaks all other leases of the directory.
  mutating func noteOwnChange() {
    directory.changes.noteOwnChange()
    count += 1
  }
}
