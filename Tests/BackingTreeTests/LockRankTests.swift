import BackingTree
import Testing

#if DEBUG
  /// What debug builds assert of the order in which a thread takes locks.
  @Suite struct LockRankTests {
    @Test func locks_inTheOrderOfTheirRanks_areTaken() {
      let (first, second) = Self.views()
      let (marking, leaf) = (RecursionFreeLock(.marking), Guarded(0))
      for _ in 0..<2 {
        for lock in [first, second, marking] { lock.lock() }
        leaf.withLock { $0 += 1 }
        // In any order.
        for lock in [first, marking, second] { lock.unlock() }
      }
      #expect(leaf.withLock { $0 } == 2)
    }

    @Test func lock_triedOutOfOrder_isTaken() {
      let (first, second) = Self.views()
      second.lock()
      #expect(first.tryLock())
      first.unlock()
      second.unlock()
    }

    @Test func leaf_underALeaf_traps() async {
      await #expect(processExitsWith: .failure) {
        let (outer, inner) = (Guarded(0), Guarded(0))
        outer.withLock { _ in inner.withLock { $0 += 1 } }
      }
    }

    @Test func directoryView_underAWatchThatBegins_traps() async {
      await #expect(processExitsWith: .failure) {
        RecursionFreeLock(.marking).lock()
        RecursionFreeLock(.directoryView).lock()
      }
    }

    @Test func directoryView_underOneOfAHigherAddress_traps() async {
      await #expect(processExitsWith: .failure) {
        let (first, second) = LockRankTests.views()
        second.lock()
        first.lock()
      }
    }

    @Test func lock_takenTwice_traps() async {
      await #expect(processExitsWith: .failure) {
        let lock = RecursionFreeLock(.directoryView)
        lock.lock()
        lock.lock()
      }
    }

    @Test func lock_releasedByAThreadWithoutIt_traps() async {
      await #expect(processExitsWith: .failure) { RecursionFreeLock(.leaf).unlock() }
    }

    /// The locks of two directory views, in their order.
    static func views() -> (RecursionFreeLock, RecursionFreeLock) {
      let (a, b) = (RecursionFreeLock(.directoryView), RecursionFreeLock(.directoryView))
      return a.address < b.address ? (a, b) : (b, a)
    }
  }
#endif
