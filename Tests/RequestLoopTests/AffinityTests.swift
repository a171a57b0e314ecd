import BackingTree
import CFuse
import CLinux
import Glibc
import Testing

extension RequestHandlingTests {
  @Suite struct AffinityTests {
    @Test func worker_movesToClientCPUAndKeepsItsAffinityMask() throws {
      let allowed = processorsAllowed
      let gone = try sleeper(on: allowed[0])
      end(gone)
      // The first again: the thread may have been there from the start.
      for processor in allowed.prefix(2) + allowed.prefix(1) {
        let caller = try sleeper(on: processor)
        defer { end(caller) }
        #expect(reachesClientCPU(caller, on: processor), "processor \(processor)")
        // A single slow request does not mean that the client has left; three in a row do, most likely, and the worker looks for
        // the client. The scheduler may move the test's thread meanwhile.
        let late: UInt64 = 1_000_000
        let isNoticed = (0..<100).contains { _ in
          reachesClientCPU(caller, on: processor)
            && [late, late, 0, late, late, late].map { placement(of: gone, $0) }
              == [.sameCPU, .sameCPU, .sameCPU, .sameCPU, .sameCPU, .remoteCPU]
        }
        #expect(isNoticed, "processor \(processor)")
      }
      #expect(processorsAllowed == allowed)
    }

    /// Tries for some ten seconds: after repeated separations the worker follows again only after some 30 000 requests.
    private func reachesClientCPU(_ caller: pid_t, on processor: Int) -> Bool {
      (0..<100_000).contains { _ in
        if placement(of: caller, 0) != .remoteCPU, currentProcessor == processor { return true }
        usleep(100)
        return false
      }
    }

    /// The worker follows a lone client as soon as it sees that the client has moved, not after the usual number of requests.
    @Test func worker_whenLoneClientMoves_followsAtOnce() throws {
      let allowed = processorsAllowed
      guard allowed.count > 1 else { return }
      let caller = try sleeper(on: allowed[0])
      defer { end(caller) }
      // The scheduler may move the test's thread meanwhile.
      let isCollecting = try (0..<100).contains { round in
        let (from, to) = round % 2 == 0 ? (allowed[0], allowed[1]) : (allowed[1], allowed[0])
        try move(caller, to: from)
        guard reachesClientCPU(caller, on: from),
          (0..<300).allSatisfy({ _ in placement(of: caller, 0) != .remoteCPU }), placement(of: caller, 0) == .pingPong,
          placement(of: caller, 0, isDear: false) == .sameCPU
        else { return false }
        try move(caller, to: to)
        guard placement(of: caller, 1_000_000) == .remoteCPU else { return false }
        return (0..<10).contains { _ in
          usleep(1000)
          return placement(of: caller, 0) == .pingPong && currentProcessor == to
        }
      }
      #expect(isCollecting)
      #expect(processorsAllowed == allowed)
    }

    /// Where processors poll before they halt, client and worker gain from running in parallel.
    @Test func worker_whereWakeupsAreCheap_doesNotMoveUntilTheyAreExpensive() throws {
      let allowed = processorsAllowed
      guard allowed.count > 1 else { return }
      let caller = try sleeper(on: allowed[0])
      defer { end(caller) }
      var rounds: [Bool] = []
      for _ in 0..<400 where rounds.count < 20 {
        if let round = staysUntilExpensive(caller, on: allowed[0], from: allowed[1]) { rounds.append(round) }
      }
      #expect(rounds.count == 20)
      #expect(rounds.count { $0 } > rounds.count / 2)
    }

    /// - Returns: whether the worker follows only once wakeups are expensive; nil where the scheduler moved the test's thread.
    private func staysUntilExpensive(_ caller: pid_t, on client: Int, from processor: Int) -> Bool? {
      dfs_run_on(UInt32(processor))
      dfs_run_as_first_thread()
      // It may take the client to be on this processor: late requests show that it is not.
      for _ in 0..<5 { _ = placement(of: caller, 1_000_000, isDear: false) }
      for _ in 0..<200 {
        awaitLookup()
        if currentProcessor != processor { return nil }
        guard placement(of: caller, 0, isDear: false) == .remoteCPU, currentProcessor == processor else {
          return false
        }
      }
      return (0..<200).contains { _ in
        awaitLookup()
        return placement(of: caller, 0) != .remoteCPU && currentProcessor == client
      }
    }

    /// Gives the thread that looks up CPUs time. A thread that sleeps may wake on another CPU.
    private func awaitLookup() {
      let start = ContinuousClock.now
      while ContinuousClock.now - start < .microseconds(100) {}
    }

    private enum Placement { case remoteCPU, sameCPU, pingPong }

    private func placement(of caller: pid_t, _ slept: UInt64, isDear: Bool = true) -> Placement {
      switch dfs_follow_client_cpu(caller, slept, isDear) {
      case DFS_REMOTE_CPU: .remoteCPU
      case DFS_SAME_CPU: .sameCPU
      default: .pingPong
      }
    }

    /// The CPUs on which the calling thread may run, from a list like `0-3,6`.
    private var processorsAllowed: [Int] {
      let status = text("/proc/thread-self/status").split(separator: "\n")
      let line = status.first { $0.hasPrefix("Cpus_allowed_list:") }
      let ranges = line?.split(separator: "\t").last?.split(separator: ",") ?? []
      return ranges.flatMap { range in
        let ends = range.split(separator: "-").compactMap { Int($0) }
        return Array(ends[0]...ends[ends.count - 1])
      }
    }

    /// Where it runs.
    private var currentProcessor: Int? {
      text("/proc/thread-self/stat").split(separator: " ").dropFirst(38).first.flatMap { Int($0) }
    }

    private func text(_ path: String) -> String {
      String(decoding: Directory(descriptor: AT_FDCWD).wholeFile(path) ?? [], as: UTF8.self)
    }

    /// Has a process run on a processor for a moment.
    private func move(_ process: pid_t, to processor: Int) throws {
      waitpid(try spawn(["taskset", "-cp", "\(processor)", "\(process)"]), nil, 0)
      kill(process, SIGSTOP)
      kill(process, SIGCONT)
      usleep(2000)
    }

    private func end(_ process: pid_t) {
      kill(process, SIGKILL)
      waitpid(process, nil, 0)
    }

    /// A process that does nothing on a processor.
    private func sleeper(on processor: Int) throws -> pid_t {
      try spawn(["taskset", "-c", "\(processor)", "sleep", "60"])
    }

    private func spawn(_ arguments: [String]) throws -> pid_t {
      var cArguments: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
      defer { for argument in cArguments { free(argument) } }
      var process = pid_t()
      var actions = posix_spawn_file_actions_t()
      posix_spawn_file_actions_init(&actions)
      defer { posix_spawn_file_actions_destroy(&actions) }
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
      try #require(posix_spawnp(&process, arguments[0], &actions, nil, &cArguments, environ) == 0)
      return process
    }
  }
}
