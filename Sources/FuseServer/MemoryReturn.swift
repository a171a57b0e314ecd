import BackingTree
import CFuse
import Glibc
import Synchronization
import View

/// Gives memory back to the system when the kernel has forgotten many files and has come to rest after that: it forgets
/// thousands at a time, when it needs memory itself, and what is freed in small pieces goes back only when it is asked for.
final class MemoryReturn: Sendable {
  /// Fewer than these are not worth the work.
  private static let many = 4096

  private let forgotten = Atomic<Int>(0)
  private let hasEnded = Atomic<Bool>(false)
  private let wake = Semaphore()

  /// The kernel has forgotten so many files.
  func add(_ count: Int) {
    let sum = forgotten.add(count, ordering: .relaxed)
    if sum.oldValue < Self.many, sum.newValue >= Self.many { wake.post() }
  }

  func end() {
    hasEnded.store(true, ordering: .relaxed)
    wake.post()
  }

  /// Works until `end`.
  func run(_ view: View) {
    while true {
      wake.wait()
      var seen = 0
      repeat {
        if hasEnded.load(ordering: .relaxed) { return }
        seen = forgotten.load(ordering: .relaxed)
        wake.wait(milliseconds: 500)
        // What woke this may have been the end, of which nobody tells twice.
      } while hasEnded.load(ordering: .relaxed) || forgotten.load(ordering: .relaxed) != seen
      forgotten.store(0, ordering: .relaxed)
      view.nodes.shrink()
      malloc_trim(0)
    }
  }
}
