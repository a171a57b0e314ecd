import BackingTree
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
