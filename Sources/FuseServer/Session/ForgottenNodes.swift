import BackingTree
import CFuse
import CLinux
import Glibc
import Synchronization
import View

/// Returns memory to the system after the kernel has sent FORGET for many nodes and has paused. The kernel forgets thousands of
/// nodes at a time when it needs memory itself, and the allocator returns small freed blocks only on malloc_trim(3).
final class MemoryReturn: Sendable {
  /// Fewer forgotten nodes than this are not worth the work.
  private static let threshold = 4096

  private let forgotten = Atomic<Int>(0)
  private let hasEnded = Atomic<Bool>(false)
  private let wake = Semaphore()

  /// Counts nodes that the kernel has forgotten.
  func add(_ count: Int) {
    let sum = forgotten.add(count, ordering: .relaxed)
    if sum.oldValue < Self.threshold, sum.newValue >= Self.threshold { wake.post() }
  }

  func end() {
    hasEnded.store(true, ordering: .relaxed)
    wake.post()
  }

  /// Runs until `end`.
  func run(_ view: View) {
    while true {
      wake.wait()
      var seen = 0
      repeat {
        if hasEnded.load(ordering: .relaxed) { return }
        seen = forgotten.load(ordering: .relaxed)
        wake.wait(milliseconds: 500)
        // `end` posts only once, and that may have been the wakeup here: check `hasEnded` again.
      } while hasEnded.load(ordering: .relaxed) || forgotten.load(ordering: .relaxed) != seen
      forgotten.store(0, ordering: .relaxed)
      view.nodes.shrink()
      malloc_trim(0)
    }
  }
}
