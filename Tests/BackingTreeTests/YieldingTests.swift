import BackingTree
import CFuse
import Glibc
import Synchronization
import Testing

extension AnsweringTests {
  @Suite(.enabled(if: geteuid() == 0, "Only root may leave the policy SCHED_IDLE."))
  struct YieldingTests {
    init() { dfs_yield_begin() }

    @Test func whoYieldsIsIdleUntilItIsOver() {
      let seen = inThread { () -> [Policy] in
        dfs_yield_allow(true)
        return [true, false, true, true, false, false].map { yielding($0) }
      }
      #expect(seen == [.idle, .usual, .idle, .idle, .usual, .usual])
    }

    @Test func nobodyYieldsWhereItIsNotAllowed() {
      let seen = inThread { () -> [Policy] in
        [false, true, false].map {
          dfs_yield_allow($0)
          return yielding(true)
        }
      }
      #expect(seen == [.usual, .idle, .usual])
    }

    @Test func howNiceAThreadIsStaysAsItWas() {
      let nice = inThread { () -> CInt in
        _ = Glibc.nice(3)
        dfs_yield_allow(true)
        _ = yielding(true)
        _ = yielding(false)
        return Glibc.nice(0)
      }
      #expect(nice == 3)
    }

    /// As the watcher does for a thread that gets no time.
    @Test func anotherThreadEndsIt() {
      let yields = Atomic(false)
      let ender = Thread {
        while !yields.load(ordering: .acquiring) { usleep(100) }
        dfs_yield_end()
      }
      let seen = inThread { () -> [Policy] in
        dfs_yield_allow(true)
        let before = yielding(true)
        yields.store(true, ordering: .releasing)
        ender?.join()
        return [before, policy, yielding(true)]
      }
      #expect(seen == [.idle, .usual, .usual], "and it is allowed no more")
    }

    @Test func whereNobodyYieldsNothingIsEnded() {
      let seen = inThread { () -> Policy in
        dfs_yield_allow(true)
        dfs_yield_end()
        return yielding(true)
      }
      #expect(seen == .idle)
    }

    @Test func whoIsMadeByAThreadThatYieldsDoesNot() {
      let seen = inThread { () -> [Policy] in
        dfs_yield_allow(true)
        return [yielding(true)] + (inThread { [policy, yielding(false)] } ?? [])
      }
      #expect(seen == [.idle, .idle, .usual])
    }

    private enum Policy: Sendable { case usual, idle }

    private var policy: Policy { sched_getscheduler(0) == 5 /* SCHED_IDLE */ ? .idle : .usual }

    private func yielding(_ on: Bool) -> Policy {
      dfs_yield(on)
      return policy
    }

    /// What a thread of its own finds, for a policy is a thread's.
    private func inThread<Found: Sendable>(_ body: @escaping @Sendable () -> Found) -> Found? {
      let found = Guarded<Found?>(nil)
      Thread {
        let result = body()
        dfs_yield(false)
        found.withLock { $0 = result }
      }?.join()
      return found.withLock { $0 }
    }
  }
}
