import BackingTree
import CFuse
import Glibc
import Synchronization
import View

/// Bounds the memory that known files take.
///
/// The daemon keeps a record of each file that the kernel knows, until the kernel forgets the file. The kernel does so when the
/// machine has no memory left, or the control group of the clients. It does not when that of the daemon has none, as a service
/// with a limit: the daemon would be killed. So the daemon requests it, by FUSE_NOTIFY_PRUNE, which Linux knows since 6.18.
final class KnownFilesLimit: Sendable {
  /// The part of the memory that the daemon may use, and what a known file takes of it: 203 bytes were measured, in a walk of
  /// 500 000 files.
  private static let (part, bytesPerFile): (UInt64, UInt64) = (8, 208)

  /// The part of the limit that is pruned at a time.
  private static let pruned = 8

  /// How many files may be known to a daemon that may use so many bytes.
  static func files(memory: UInt64) -> Int { Int(clamping: max(16384, memory / part / bytesPerFile)) }

  private let threads = ThreadGroup()
  private let hasEnded = Atomic<Bool>(false)
  private let wake = Semaphore()

  /// - Parameter most: the number of files that may be known.
  func start(_ nodes: NodeTable, _ session: OpaquePointer, most: Int = files(memory: MemoryLimit.current())) {
    nonisolated(unsafe) let session = session
    guard threads.start({ [self] in run(nodes, session, most) }) else { return }
    nodes.limitCount(to: most) { [wake] in wake.post() }
  }

  /// Called before the session's descriptor is closed. Waits a moment only: the kernel may wait for a reply of the daemon.
  func stop() {
    hasEnded.store(true, ordering: .relaxed)
    wake.post()
    _ = waitUntilEnded()
  }

  /// - Returns: false when the thread still waits for the kernel.
  func waitUntilEnded() -> Bool { threads.waitUntilEnded(milliseconds: 200) }

  private func run(_ nodes: NodeTable, _ session: OpaquePointer, _ most: Int) {
    var next = 0
    while true {
      wake.wait()
      var (count, sent) = (nodes.count, 0)
      // What is in use stays, so each file is requested once at most.
      let known = count
      while count > most, sent < known {
        // The FORGETs of what was requested last arrive meanwhile.
        var excess = count - most + most / Self.pruned
        while excess > 0, sent < known {
          if hasEnded.load(ordering: .relaxed) { return }
          let batch = nodes.nodeids(from: next, most: min(excess, Int(DFS_MOST_PRUNED)))
          next = batch.next
          if dfs_notify_prune(session, batch.nodeids, UInt32(batch.nodeids.count)) == -EINVAL { return }
          excess -= batch.nodeids.count
          sent += max(1, batch.nodeids.count)
        }
        if wake.wait(milliseconds: 100), hasEnded.load(ordering: .relaxed) { return }
        count = nodes.count
      }
      if hasEnded.load(ordering: .relaxed) { return }
      // Where more stay known than may be, because they are in use, the kernel is not sent all of them for each further file.
      nodes.limitCount(to: count > most ? count + most / Self.pruned : most) { [wake] in wake.post() }
    }
  }
}
