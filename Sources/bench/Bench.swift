import ArgumentParser
import CBench
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
      count. An ordinary user can only measure mounts of his own; root measures both kinds, counts the requests of each \
      operation and measures what one costs. Where the kernel has the parameter guest_halt_poll_ns, all runs once with \
      processors that halt at once and once with such that poll before; it is restored at the end, also of an interrupted run.
      """)

  @Option(help: "How often each workload runs on each file system at most.")
  var rounds = 5

  @Option(help: "Begin no round that would end later than this.")
  var minutes = 60.0

  @Flag(help: "Smaller files and directories: minutes instead of an hour.")
  var quick = false

  @Flag(
    help:
      "Write the tables into Mount/README.md and the pictures beside it. Only its workloads are measured.")
  var publish = false

  @Option(help: "Only the workloads whose name contains this; `growth` is for larger and larger directories.")
  var only: String?

  @Option(help: "Only mounts by this one, root or user; by default both.")
  var mountedBy: MountKind?

  @Option(help: "Only with idle processors that do this, halt or poll; by default both.")
  var idle: IdleProcessors?

  @Option(help: "The ordinary user, where root runs this.")
  var user = "games"

  @Option(help: "libfuse's example passthrough_hp, to be compared with.")
  var passthroughHp: String?

  @Option(help: "Where to put the files.")
  var directory = "/var/tmp"

  @Option(help: ArgumentHelp("The displayfs to measure.", visibility: .hidden))
  var displayfs = "displayfs"

  @Option(
    help: ArgumentHelp(
      "The helper of ordinary users' mounts, without the right it needs.", visibility: .hidden))
  var passthroughHelper: String?

  @Option(help: ArgumentHelp("The directory that holds Mount/README.md.", visibility: .hidden))
  var repository = "."

  @Option(help: ArgumentHelp("Be the smallest FUSE server, here.", visibility: .hidden))
  var serveSmallest: String?

  func validate() throws {
    if let idle, idle != .unchanged, !IdleProcessors.available.contains(idle) {
      throw ValidationError("--idle \(idle) is for root, where the cpuidle governor is haltpoll.")
    }
    guard publish else { return }
    if only != nil || mountedBy != nil || idle != nil {
      throw ValidationError("--publish writes all tables: it excludes --only, --mounted-by and --idle.")
    }
    if !Account.isRoot { throw ValidationError("--publish is for root, which measures both kinds of mount.") }
  }

  func run() throws {
    if let serveSmallest { throw ExitCode(bench_serve_smallest(serveSmallest)) }
    let work = try Scratch(in: directory)
    // The order: an instance of tracefs before tracefs.
    let cleanUp = try CleanUp(
      [IdleProcessors.restoration, RequestCounter.removal(in: work), work.removal].joined(separator: "\n"))
    defer { cleanUp.run() }
    let comparisons = try compare(in: work)
    for comparison in comparisons { print(comparison.report(of: comparison.workloads) + "\n") }
    if publish { try Readme(in: repository).publish(comparisons) }
  }

  private func compare(in work: Scratch) throws -> [Comparison] {
    let programs = ContestantPrograms(
      displayfs: displayfs, helper: passthroughHelper, passthroughHp: passthroughHp, in: work, repository)
    let accounts = try kinds.map { ($0, $0 == .user ? try userAccount : .current) }
    let run = Run(
      work: work, scale: scale, rounds: max(1, rounds), seconds: minutes * 60 / Double(accounts.count),
      workloads: workloads,
      idle: idle.map { [$0] } ?? IdleProcessors.available, counter: counter(in: work))
    return try accounts.map { kind, account in
      try run.compare(kind, Contestant.all(kind, programs), as: account)
    }
  }

  /// Those that the user of the benchmark can mount.
  private var kinds: [MountKind] {
    MountKind.allCases.filter { kind in
      guard mountedBy == nil || kind == mountedBy else { return false }
      if kind == .root, !Account.isRoot { note("\(kind.title): left out, as only root can measure that") }
      return kind == .user || Account.isRoot
    }
  }

  private var userAccount: Account {
    get throws { Account.isRoot ? try .named(user) : .current }
  }

  /// Nil where requests cannot be counted; a note says why.
  private func counter(in work: Scratch) -> RequestCounter? {
    do {
      return try RequestCounter(work)
    } catch {
      note("Requests are not counted: \(error)")
      return nil
    }
  }

  private var scale: Scale { quick ? .quick : .full }

  private var workloads: [Workload] {
    let asksForGrowth = only?.contains("growth") ?? false
    return (asksForGrowth ? Workload.growth : Workload.all(scale)).filter { workload in
      (only.map { workload.name.contains($0) } ?? true) && (!publish || workload.isPublished)
    }
  }
}

extension MountKind: ExpressibleByArgument {}
extension IdleProcessors: ExpressibleByArgument {}
