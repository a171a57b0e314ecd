import BackingTree
import Glibc
import Testing

@Suite struct GuardedTests {
  private final class Value: Sendable {
    let atEnd: @Sendable () -> Void
    init(atEnd: @escaping @Sendable () -> Void) { self.atEnd = atEnd }
    deinit { atEnd() }
  }

  /// A value that takes long to destroy, such as a file that has to be closed, is destroyed without the lock.
  @Test func discard_releasesValuesAfterUnlocking() {
    let values = Guarded<[Value]>([])
    let probe = Guarded(0)
    values.withLock {
      $0 = [
        Value {
          // Would not return while the calling thread has the lock.
          let count = values.withLock { $0.count }
          probe.withLock { $0 += count + 1 }
        }
      ]
    }
    values.discard { values in
      defer { values = [] }
      return values
    }
    #expect(probe.withLock { $0 } == 1)
  }

  @Test func state_changedByManyThreads_losesNoChange() {
    let count = Guarded(0)
    let threads = (0..<8).compactMap { _ in
      Thread { for _ in 0..<50_000 { count.withLock { $0 += 1 } } }
    }
    for thread in threads { thread.join() }
    #expect(threads.count == 8)
    #expect(count.withLock { $0 } == 400_000)
  }

  /// A thread that waits sleeps until the lock is released, and then has it.
  @Test func lock_thatAnotherThreadReleases_isTakenByOneThatSleeps() {
    let lock = RecursionFreeLock(.marking)
    let taken = Guarded(0)
    lock.lock()
    let threads = (0..<4).compactMap { _ in
      Thread {
        lock.lock()
        taken.withLock { $0 += 1 }
        lock.unlock()
      }
    }
    usleep(20_000)
    #expect(!lock.tryLock())
    #expect(taken.withLock { $0 } == 0)
    lock.unlock()
    for thread in threads { thread.join() }
    #expect(taken.withLock { $0 } == 4)
    #expect(lock.tryLock())
    lock.unlock()
  }

  @Test func isHeld_isTrueOnHoldingThreadOnly() {
    let lock = RecursionFreeLock(.marking)
    #expect(!lock.isHeld)
    let other = Guarded(true)
    lock.lock()
    #expect(lock.isHeld)
    Thread { other.withLock { $0 = lock.isHeld } }?.join()
    #expect(!other.withLock { $0 })
    lock.unlock()
  }
}
