import BackingTree
import CFuse
import Glibc
import Testing

@Suite struct BesideTests {
  @Test func whoAnswersGoesToTheProcessorOfWhoAsksAndStaysFreeToLeave() throws {
    let allowed = processorsAllowed
    let gone = try sleeper(on: allowed[0])
    end(gone)
    // The first again: the thread may have been there from the start.
    for processor in allowed.prefix(2) + allowed.prefix(1) {
      let caller = try sleeper(on: processor)
      defer { end(caller) }
      #expect(comesBeside(caller, on: processor), "processor \(processor)")
      // One who takes their time has not gone; whoever always does has, most likely, and is looked for. Whoever runs this may
      // be moved meanwhile.
      let late: UInt64 = 1_000_000
      let isNoticed = (0..<100).contains { _ in
        comesBeside(caller, on: processor)
          && [late, late, 0, late, late, late].map { dfs_runs_beside(gone, $0) }
            == [true, true, true, true, true, false]
      }
      #expect(isNoticed, "processor \(processor)")
    }
    #expect(processorsAllowed == allowed)
  }

  /// Within some ten seconds: where the two are separated again and again, it is tried after some 30 000 questions at last.
  private func comesBeside(_ caller: pid_t, on processor: Int) -> Bool {
    (0..<100_000).contains { _ in
      if dfs_runs_beside(caller, 0), currentProcessor == processor { return true }
      usleep(100)
      return false
    }
  }

  /// Where the calling thread may run, from a list like `0-3,6`.
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

  private func end(_ process: pid_t) {
    kill(process, SIGKILL)
    waitpid(process, nil, 0)
  }

  /// A process that does nothing on a processor.
  private func sleeper(on processor: Int) throws -> pid_t {
    let arguments = ["taskset", "-c", "\(processor)", "sleep", "60"]
    var cArguments: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { for argument in cArguments { free(argument) } }
    var process = pid_t()
    try #require(posix_spawnp(&process, "taskset", nil, nil, &cArguments, environ) == 0)
    return process
  }
}
