import BackingTree
import CFuse
import Glibc
import Testing

@Suite struct BesideTests {
  @Test func whoAnswersGoesToTheProcessorOfWhoAsksAndStaysFreeToLeave() throws {
    let allowed = processorsAllowed
    // The first again: the thread may have been there from the start.
    for processor in allowed.prefix(2) + allowed.prefix(1) {
      let caller = try sleeper(on: processor)
      defer {
        kill(caller, SIGKILL)
        waitpid(caller, nil, 0)
      }
      var isBeside = false
      for _ in 0..<10_000 where !isBeside {
        isBeside = dfs_runs_beside(caller, 0) && currentProcessor == processor
        if !isBeside { usleep(100) }
      }
      #expect(isBeside, "processor \(processor)")
      // One who takes their time has not gone; whoever always does has, most likely.
      let late: UInt64 = 1_000_000
      for slept in [late, late, 0, late, late] { #expect(dfs_runs_beside(caller, slept)) }
      #expect(!dfs_runs_beside(caller, late))
    }
    #expect(processorsAllowed == allowed)
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
