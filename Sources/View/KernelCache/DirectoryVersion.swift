import BackingTree
import DisplayNames

/// A snapshot of a directory's change counts. What a reply says of the directory, or of something in it, holds until the version
/// is stale.
///
/// A worker takes it before it looks at the backing tree. It may become stale while the reply is on its way, when an
/// invalidation would come too early. So the worker compares it again after it has replied (`View.revalidateAfterReply`).
package struct DirectoryVersion: Sendable {
  let directory: WatchedDirectory
  private var count: UInt64
  private let contentCount: UInt64

  init(_ directory: WatchedDirectory) {
    self.directory = directory
    count = directory.changes.count
    contentCount = directory.changes.contentCount
  }

  /// Whether a reply about what a name stands for may be stale.
  package var isStale: Bool { directory.changes.count != count || !directory.changes.mayBeCached }

  /// Whether a reply with the attributes of the directory, or of a file in it, may be stale.
  func isStale(for node: NodeID) -> Bool {
    isStale || node != directory.node && directory.changes.contentCount != contentCount
  }

  /// Records that the kernel is about to cache a negative entry.
  ///
  /// - Returns: false when it must not.
  func noteNegativeEntry(_ name: Name, _ matching: NameMatching = .exact) -> Bool {
    directory.noteNegativeEntry(name, matching)
  }

  /// Records a change of the directory by the holder of this version: all other versions of the directory become stale.
  mutating func noteOwnChange() {
    directory.changes.noteOwnChange()
    count += 1
  }
}
