import BackingTree
import Glibc
import Synchronization

/// Threads that got ESTALE for a node. The kernel then looks up the names that led to the node, and repeats the request.
///
/// The client may have meant the stale node nevertheless. A file that is open although its name is gone can be opened once more
/// through its descriptor (`/proc/self/fd`). The kernel then has no name to look up before it repeats the request.
final class StaleRetries: Sendable {
  private let refusals = Guarded<[pid_t: (nodes: Set<NodeID>, time: ContinuousClock.Instant)]>([:])
  /// Every lookup passes here, and there is almost never an entry.
  private let isNotEmpty = Atomic<Bool>(false)

  private let period: Duration

  /// - Parameter period: the time within which the kernel repeats a request.
  init(within period: Duration) { self.period = period }

  /// Whether a thread that got ESTALE for a node repeats its request without a lookup in between. If not, this records that the
  /// thread gets ESTALE now.
  func isRetry(_ node: NodeID, by thread: pid_t) -> Bool {
    if take(by: thread) == [node] { return true }
    noteRefusal(of: [node], by: thread)
    return false
  }

  /// Removes and returns the nodes that a thread got ESTALE for, if that was less than `period` ago. Nil if there are none.
  func take(by thread: pid_t) -> Set<NodeID>? {
    // Threads in other PID namespaces all have the ID 0 and cannot be distinguished.
    guard thread != 0, isNotEmpty.load(ordering: .acquiring) else { return nil }
    return refusals.withLock { refusals in
      guard let last = refusals.removeValue(forKey: thread), ContinuousClock.now - last.time < period else {
        return nil
      }
      return last.nodes
    }
  }

  /// Records that a thread gets ESTALE for these nodes.
  func noteRefusal(of nodes: Set<NodeID>, by thread: pid_t) {
    guard thread != 0 else { return }
    refusals.withLock { refusals in
      let now = ContinuousClock.now
      // A client that gives up sends no further request, so its entry stays.
      if refusals.count >= 64 { refusals = refusals.filter { now - $0.value.time < period } }
      if refusals.count >= 4096 { refusals = [:] }
      refusals[thread] = (nodes, now)
      isNotEmpty.store(true, ordering: .releasing)
    }
  }

  /// Drops the entry of a thread that does not repeat its request: it looks a name up, or opens or creates another file, perhaps
  /// by a name that another thread has just looked up.
  ///
  /// - Parameter directory: where the thread looks a name up. If the thread got ESTALE for this very directory, its entry stays:
  ///   it reached the directory by no name, but works in it or has it open.
  func clearRefusal(_ thread: pid_t, in directory: NodeID? = nil) {
    guard isNotEmpty.load(ordering: .acquiring) else { return }
    refusals.withLock { refusals in
      if let directory, refusals[thread]?.nodes == [directory] { return }
      refusals[thread] = nil
      if refusals.isEmpty { isNotEmpty.store(false, ordering: .releasing) }
    }
  }
}
