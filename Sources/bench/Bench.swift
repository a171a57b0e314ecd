import ArgumentParser
import Glibc

/// Compares displayfs with the directory beneath it and with other file systems of its kind. `Mount/bench` builds and runs
/// it.
@main
struct Bench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "Mount/bench",
    abstract: "Measure what a view costs, beside the backing directory and other file systems.",
    discussion: """
      Every workload runs on each file system in turn, several rounds long, each time through a fresh mount; the medians \
      count. Only root can drop no privileges and be passed through, so root should run this, on a machine with nothing \
      else to do.
      """)

  @Option(help: "How often each workload runs on each file system.")
  var rounds = 5

  @Flag(help: "Smaller files and directories: minutes instead of an hour.")
  var quick = false

  @Flag(help: "Write the table into README.md and the picture beside it.")
  var publish = false

  @Option(help: "Only the workloads whose name contains this; `growth` is for larger and larger directories.")
  var only: String?

  @Option(help: "libfuse's example passthrough_hp, to be compared with.")
  var passthroughHp: String?

  @Option(help: "Where to put the files.")
  var directory = "/var/tmp"

  @Option(help: ArgumentHelp("The displayfs to measure.", visibility: .hidden))
  var displayfs = "displayfs"

  @Option(help: ArgumentHelp("The directory that holds README.md.", visibility: .hidden))
  var repository = "."

  func run() throws {
    let scale: Scale = quick ? .quick : .full
    let work = try Scratch(in: directory)
    defer { work.remove() }
    let contestants = Contestant.all(displayfs: displayfs, passthroughHp: passthroughHp)
    let missing = Contestant.names.filter { name in !contestants.contains { $0.name == name } }
    if !missing.isEmpty { note("Not here, so left out: \(missing.joined(separator: ", "))") }
    let asksForGrowth = only?.contains("growth") ?? false
    let workloads = (asksForGrowth ? Workload.growth : Workload.all(scale)).filter { workload in
      only.map { workload.name.contains($0) } ?? true
    }
    note("Making the files in \(work.source)")
    for preparation in Set(workloads.map(\.needs)).sorted() { try preparation.make(in: work.source, scale) }
    var results = Results(contestants: contestants.map(\.name), workloads: workloads)
    for round in 1...max(1, rounds) {
      for workload in workloads {
        // Another one begins in each round: nobody always finds the caches as the same one left them.
        for offset in contestants.indices {
          let contestant = contestants[(offset + round) % contestants.count]
          guard let value = measure(workload, on: contestant, in: work) else { continue }
          results.add(value, workload: workload.name, contestant: contestant.name)
        }
        note("round \(round) of \(rounds): \(results.line(workload))")
      }
    }
    print(results.table(of: workloads))
    if publish { try results.publish(in: repository, machine: Machine.description) }
  }

  /// Nil when it could not be measured; a note says why.
  private func measure(_ workload: Workload, on contestant: Contestant, in work: Scratch) -> Double? {
    if workload.isAboutMounting, !contestant.mounts { return nil }
    if workload.isGrowth, !contestant.isOurs { return nil }
    do {
      workload.before(work.source)
      defer { workload.after(work.source) }
      let mounted = try contestant.mount(work)
      defer { mounted.unmount() }
      return try workload.run(mounted)
    } catch {
      note("\(workload.name) on \(contestant.name): \(error)")
      return nil
    }
  }
}

/// What went wrong, for people.
struct Problem: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
  /// The error of the system call that has just failed.
  static func system(_ what: String) -> Problem { Problem("\(what): \(String(cString: strerror(errno)))") }
}

/// For those who watch, apart from the results.
func note(_ text: String) {
  let line = Array((text + "\n").utf8)
  _ = write(STDERR_FILENO, line, line.count)
}

/// Seconds of the monotonic clock.
func now() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  let middle = sorted.count / 2
  return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
