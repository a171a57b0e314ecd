import BackingTree
import CFuse
import CLinux
import Glibc
import Synchronization
import Testing

extension RequestHandlingTests {
  @Suite(.enabled(if: geteuid() == 0, "Only root may leave the policy SCHED_IDLE."))
  struct IdlePriorityTests {
    init() { dfs_idle_priority_begin() }

    @Test func yield_setsIdlePolicyUntilItEnds() {
      let seen = inThread { () -> [Policy] in
        dfs_idle_priority_allow(true)
        return [true, false, true, true, false, false].map { yielding($0) }
      }
      #expect(seen == [.idle, .usual, .idle, .idle, .usual, .usual])
    }

    @Test func yield_whereNotAllowed_keepsPolicy() {
      let seen = inThread { () -> [Policy] in
        [false, true, false].map {
          dfs_idle_priority_allow($0)
          return yielding(true)
        }
      }
      #expect(seen == [.usual, .idle, .usual])
    }

    @Test func yield_keepsNiceValue() {
      let nice = inThread { () -> CInt in
        _ = Glibc.nice(3)
        dfs_idle_priority_allow(true)
        _ = yielding(true)
        _ = yielding(false)
        return Glibc.nice(0)
      }
      #expect(nice == 3)
    }

    /// The watchdog does this for a thread that gets no CPU time.
    @Test func yieldEnd_byAnotherThread_restoresAndForbidsYield() {
      let yields = Atomic(false)
      let ender = Thread {
        while !yields.load(ordering: .acquiring) { usleep(100) }
        // The thread has made no progress since the previous tick.
        for _ in 0..<2 { dfs_idle_priority_tick() }
      }
      let seen = inThread { () -> [Policy] in
        dfs_idle_priority_allow(true)
        let before = yielding(true)
        yields.store(true, ordering: .releasing)
        ender?.join()
        return [before, policy, yielding(true)]
      }
      #expect(seen == [.idle, .usual, .usual], "and it is allowed no more")
    }

    /// The loop may have been stolen from a thread that is about to get the policy. The thread must not keep it.
    @Test func watchdogTick_untilThreadReturns_restoresPolicy() {
      let seen = inThread { () -> [Policy] in
        dfs_idle_priority_allow(true)
        var seen = [yielding(true)]
        func tick() { Thread { dfs_idle_priority_tick() }?.join() }
        tick()
        _ = yielding(true)
        tick()
        seen.append(policy)
        // A call by another thread does not change this thread.
        Thread { dfs_idle_priority(true) }?.join()
        tick()
        seen.append(policy)
        var parameter = sched_param()
        sched_setscheduler(0, 5 /* SCHED_IDLE */, &parameter)
        tick()
        seen.append(policy)
        return seen
      }
      #expect(seen == [.idle, .idle, .usual, .usual])
    }

    @Test func yieldEnd_withoutYield_changesNothing() {
      let seen = inThread { () -> Policy in
        dfs_idle_priority_allow(true)
        for _ in 0..<2 { dfs_idle_priority_tick() }
        return yielding(true)
      }
      #expect(seen == .idle)
    }

    @Test func foreignThread_createdDuringYield_leavesIdlePolicy() {
      let seen = inThread { () -> [Policy] in
        dfs_idle_priority_allow(true)
        return [yielding(true)] + inThreadOfAnotherLibrary { [policy, yielding(false)] }
      }
      #expect(seen == [.idle, .idle, .usual])
    }

    @Test func ownThread_hasPolicyAffinityAndNiceOfFirstThread() {
      let seen = inThread { () -> [Policy] in
        dfs_idle_priority_allow(true)
        return [yielding(true)] + (inThread { [policy] } ?? [])
      }
      #expect(seen == [.idle, .usual])
      let isLikeTheFirst = inThread {
        dfs_run_on(0)
        return inThread { processors(of: "thread-self") == processors(of: "self") } ?? false
      }
      #expect(isLikeTheFirst == true)
      let nice = inThread { () -> [CInt] in
        let first = Glibc.nice(0)
        BackingTree.Thread.raisePriority()
        return [first, Glibc.nice(0)] + (inThread { [Glibc.nice(0), first] } ?? [])
      }
      #expect(nice.map { $0.count == 4 && $0[1] == -10 && $0[2] == $0[3] } == true)
    }

    private func processors(of process: String) -> Substring? {
      let status = Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/status") ?? []
      return String(decoding: status, as: UTF8.self).split(separator: "\n").first {
        $0.hasPrefix("Cpus_allowed:")
      }
    }

    private func inThreadOfAnotherLibrary(_ body: @escaping @Sendable () -> [Policy]) -> [Policy] {
      final class Box {
        let body: () -> [Policy]
        var found: [Policy] = []
        init(_ body: @escaping () -> [Policy]) { self.body = body }
      }
      let box = Box(body)
      var id = pthread_t()
      let start: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = {
        let box = Unmanaged<Box>.fromOpaque($0!).takeUnretainedValue()
        box.found = box.body()
        return nil
      }
      pthread_create(&id, nil, start, Unmanaged.passUnretained(box).toOpaque())
      pthread_join(id, nil)
      return box.found
    }

    private enum Policy: Sendable { case usual, idle }

    private var policy: Policy { sched_getscheduler(0) == 5 /* SCHED_IDLE */ ? .idle : .usual }

    private func yielding(_ on: Bool) -> Policy {
      dfs_idle_priority(on)
      return policy
    }

    /// The result of `body` on a new thread: a scheduling policy belongs to a thread.
    private func inThread<Found: Sendable>(_ body: @escaping @Sendable () -> Found) -> Found? {
      let found = Guarded<Found?>(nil)
      Thread {
        let result = body()
        dfs_idle_priority(false)
        found.withLock { $0 = result }
      }?.join()
      return found.withLock { $0 }
    }
  }
}
