import BackingTree
import Glibc
import Synchronization

/// The clients that stat what they list, as backups, `find -newer` and file managers do.
///
/// For them a listing includes what each name stands for, which saves a LOOKUP per name. A client that needs only names would
/// wait for that in vain.
final class ReaddirPlusPolicy: Sendable {
  /// The thread and directory of the last listing that returned only names.
  private let lastListing = Atomic<UInt64>(0)
  private let threads = Guarded<Set<pid_t>>([])

  /// The limit of `threads`, at which the set is cleared: some of its threads have ended, and the rest are soon recognized
  /// again.
  private static let maximumThreads = 256

  /// Records that a thread lists a directory. - Returns: whether the thread is known to stat what it lists.
  func noteListing(_ directory: NodeID, _ thread: pid_t) -> Bool {
    if threads.withLock({ $0.contains(thread) }) { return true }
    lastListing.store(Self.pair(directory, thread), ordering: .relaxed)
    return false
  }

  /// Records that a thread looks up a name in a directory.
  func noteLookup(in directory: NodeID, _ thread: pid_t) {
    guard lastListing.load(ordering: .relaxed) == Self.pair(directory, thread) else { return }
    lastListing.store(0, ordering: .relaxed)
    threads.withLock { threads in
      if threads.count >= Self.maximumThreads { threads = [] }
      threads.insert(thread)
    }
  }

  private static func pair(_ directory: NodeID, _ thread: pid_t) -> UInt64 {
    UInt64(UInt32(bitPattern: thread)) << 32 | UInt64(directory.slot)
  }
}
