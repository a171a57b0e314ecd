import BackingTree
import CLinux
import Glibc
import Synchronization
import View

/// Ends what the view keeps for nodes that the kernel has forgotten, and returns their memory to the system.
///
/// A thread of its own does it. The worker that receives a FORGET must not: close(2) of a removed directory waits while its blocks
/// are freed (9 s on ext4 with discard, seen), and libfuse counts a worker that serves FORGET as idle. It starts no other for it,
/// and where all others are busy, no request of any user would be read meanwhile.
final class ForgottenNodes: Sendable {
  /// Memory of fewer nodes than this is not worth the work.
  private static let threshold = 4096
  /// How long forgotten nodes are collected. `rm -r` sends a FORGET for each file, and each wakeup costs more than that.
  private static let collecting = 10

  private let threads = ThreadGroup()
  private let hasEnded = Atomic<Bool>(false)
  private let wake = Semaphore()

  func start(_ nodes: NodeTable) {
    guard threads.start({ [self] in run(nodes) }) else { return }
    nodes.deferRelease { [wake] in wake.post() }
  }

  /// Waits a moment only: the backing file system may not respond.
  func end() {
    hasEnded.store(true, ordering: .relaxed)
    wake.post()
    threads.waitUntilEnded(milliseconds: 200)
  }

  /// The kernel forgets thousands of nodes at a time when it needs memory itself. The allocator returns small freed blocks only on
  /// malloc_trim(3), which is called when the kernel has paused.
  private func run(_ nodes: NodeTable) {
    var released = 0
    while !hasEnded.load(ordering: .relaxed) {
      if released < Self.threshold {
        wake.wait()
      } else if !wake.wait(milliseconds: 500) {
        nodes.shrink()
        malloc_trim(0)
        released = 0
        continue
      }
      usleep(UInt32(Self.collecting * 1000))
      released += nodes.release()
    }
  }
}
