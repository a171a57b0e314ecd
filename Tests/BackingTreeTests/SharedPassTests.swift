import Glibc
import Testing

@testable import BackingTree

@Suite struct SharedPassTests {
  /// Runs `body` on as many threads as `count` at the same time, and waits for them.
  private func onThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) throws {
    for thread in try (0..<count).map({ _ in try #require(Thread(body)) }) { thread.join() }
  }

  @Test func callersDuringAPass_shareTheNextPass() throws {
    let shared = SharedPass()
    let passes = Guarded(0)
    let (isInside, mayEnd, haveCome) = (Semaphore(), Semaphore(), Guarded(0))
    let first = try #require(
      Thread {
        shared.run {
          // Only the first pass waits: the same thread runs the second pass, for all other threads.
          guard
            passes.withLock({
              $0 += 1
              return $0 == 1
            })
          else { return }
          isInside.post()
          mayEnd.wait()
        }
      })
    isInside.wait()
    let others = try (0..<8).map { _ in
      try #require(
        Thread {
          haveCome.withLock { $0 += 1 }
          shared.run { passes.withLock { $0 += 1 } }
        })
    }
    while haveCome.withLock({ $0 }) < 8 { usleep(1000) }
    usleep(50_000)
    mayEnd.post()
    first.join()
    for other in others { other.join() }
    #expect(passes.withLock { $0 } == 2)
  }

  @Test func run_returnsAfterPassThatSawStateAtCall() throws {
    let shared = SharedPass()
    let (made, seen) = (Guarded(0), Guarded(0))
    let missed = Guarded(0)
    try onThreads(8) {
      for _ in 0..<2000 {
        let own = made.withLock { made -> Int in
          made += 1
          return made
        }
        shared.run {
          let count = made.withLock { $0 }
          seen.withLock { $0 = count }
        }
        if seen.withLock({ $0 }) < own { missed.withLock { $0 += 1 } }
      }
    }
    #expect(missed.withLock { $0 } == 0)
  }
}
