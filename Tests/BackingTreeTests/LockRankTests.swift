import Testing

@testable import BackingTree

#if DEBUG
  /// The order in which a thread takes locks. Debug builds trap by the faults that are found here, and where a thread releases a lock
  /// that it does not hold; that they trap is not tested.
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

    @Test func leaf_underALeaf_isAFault() {
      let (outer, inner) = (Guarded(0), Guarded(0))
      #expect(fault(inTaking: inner.lock) == nil)
      #expect(outer.withLock { _ in fault(inTaking: inner.lock) } != nil)
    }

    @Test func directoryView_underAWatchThatBegins_isAFault() {
      let (marking, view) = (RecursionFreeLock(.marking), RecursionFreeLock(.directoryView))
      #expect(whileHolding(marking) { fault(inTaking: view) } != nil)
    }

    @Test func directoryView_underOneOfAHigherAddress_isAFault() {
      let (first, second) = Self.views()
      #expect(whileHolding(second) { fault(inTaking: first) } != nil)
    }

    @Test func lock_takenTwice_isAFault() {
      let lock = RecursionFreeLock(.directoryView)
      #expect(whileHolding(lock) { fault(inTaking: lock) } != nil)
      #expect(fault(inTaking: lock) == nil)
    }

    private func fault(inTaking lock: RecursionFreeLock) -> String? {
      HeldLocks.faultInTaking(lock.word, lock.rank)
    }

    private func whileHolding<Result>(_ lock: RecursionFreeLock, _ body: () -> Result) -> Result {
      lock.lock()
      defer { lock.unlock() }
      return body()
    }

    /// The locks of two directory views, in their order.
    static func views() -> (RecursionFreeLock, RecursionFreeLock) {
      let (a, b) = (RecursionFreeLock(.directoryView), RecursionFreeLock(.directoryView))
      return a.address < b.address ? (a, b) : (b, a)
    }
  }
#endif
