import BackingTree
import Glibc
import Synchronization

/// Threads that were told that what they open is stale.
///
/// A file that others have removed or replaced, and that somebody still has open, is opened either by its name, which the
/// kernel has not been told of yet, or through what is open (`/proc/self/fd`). Who opens it by name, to write it or to
/// make it if it is not there, must not get what is gone: nobody would find again what is written. Told that it is stale
/// the kernel has the name looked up before it tries again, and only then; see ESTALE in open(2)'s path_openat.
final class StaleOpens: Sendable {
  private let threads = Guarded<[pid_t: NodeID]>([:])
  /// Look-ups pass here all the time, and almost always find nothing.
  private let areAny = Atomic<Bool>(false)

  /// Whether a thread that was told that a node is stale asks for it again, having looked nothing up. If not, it is to be told.
  func isAskedAgain(_ node: NodeID, by thread: pid_t) -> Bool {
    // One in another process-id namespace cannot be told from others.
    guard thread != 0 else { return false }
    return threads.withLock { threads in
      if threads.removeValue(forKey: thread) == node { return true }
      // Who gives up asks for nothing any more.
      if threads.count >= 64 { threads = [:] }
      threads[thread] = node
      areAny.store(true, ordering: .releasing)
      return false
    }
  }

  /// A thread looks a name up.
  func looksUp(_ thread: pid_t) {
    guard areAny.load(ordering: .acquiring) else { return }
    threads.withLock { threads in
      threads[thread] = nil
      if threads.isEmpty { areAny.store(false, ordering: .releasing) }
    }
  }
}
