import BackingTree
import Glibc
import Synchronization

/// The programs that look at what they list, as backups, `find -newer` and file managers do.
///
/// A listing tells them what its names stand for, so that they need not ask for each. Whoever wants names alone would wait for
/// that in vain.
final class Lookers: Sendable {
  /// Thread and directory of the last listing that told names alone.
  private let listed = Atomic<UInt64>(0)
  private let threads = Guarded<Set<pid_t>>([])

  /// Threads end, and those that go on are soon known again.
  private static let most = 256

  /// A thread lists a directory. - Returns: whether it is one that looks at what it lists.
  func lists(_ directory: NodeID, _ thread: pid_t) -> Bool {
    if threads.withLock({ $0.contains(thread) }) { return true }
    listed.store(Self.pair(directory, thread), ordering: .relaxed)
    return false
  }

  /// A thread looks up a name in a directory.
  func looksUp(in directory: NodeID, _ thread: pid_t) {
    guard listed.load(ordering: .relaxed) == Self.pair(directory, thread) else { return }
    listed.store(0, ordering: .relaxed)
    threads.withLock { threads in
      if threads.count >= Self.most { threads = [] }
      threads.insert(thread)
    }
  }

  private static func pair(_ directory: NodeID, _ thread: pid_t) -> UInt64 {
    UInt64(UInt32(bitPattern: thread)) << 32 | directory & 0xffff_ffff
  }
}
