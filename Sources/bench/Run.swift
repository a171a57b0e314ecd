import Glibc

/// Runs the workloads on the contestants of one kind of mount.
struct Run {
  let work: Scratch
  let scale: Scale
  let rounds: Int
  /// No round begins that would end later than that many seconds after a comparison began.
  let seconds: Double
  let workloads: [Workload]
  let idle: [IdleProcessors]
  /// Nil where requests cannot be counted.
  let counter: RequestCounter?

  func compare(_ kind: MountKind, _ all: [Contestant], as account: Account) throws -> Comparison {
    let deadline = now() + seconds
    note("\(kind.title): making the files in \(work.source)")
    try work.makeDirectories(of: account)
    try account.perform {
      for preparation in Set(workloads.map(\.needs)).sorted() { try preparation.make(in: work.source, scale) }
    }
    let (contestants, passthrough) = usable(all, as: account)
    var comparison = Comparison(kind, workloads, contestants: contestants.map(\.name), idle: idle)
    comparison.passthrough = passthrough
    countRequests(of: contestants, as: account, into: &comparison)
    try runRounds(of: contestants, as: account, until: deadline, into: &comparison)
    return comparison
  }

  private func runRounds(
    of contestants: [Contestant], as account: Account, until deadline: Double,
    into comparison: inout Comparison
  ) throws {
    let start = now()
    for round in 1...rounds {
      for index in comparison.results.indices {
        try self.round(round, of: contestants, as: account, into: &comparison.results[index])
      }
      if round < rounds, now() + (now() - start) / Double(round) > deadline {
        return note("\(comparison.kind.title): \(round) rounds, as another would take too long")
      }
    }
  }

  /// The contestants that can be mounted, with what they say of passthrough; notes say why the others cannot.
  private func usable(_ all: [Contestant], as account: Account) -> (
    [Contestant], [(contestant: String, state: String)]
  ) {
    var contestants: [Contestant] = []
    var passthrough: [(contestant: String, state: String)] = []
    for contestant in all {
      do {
        let state = try account.perform { try contestant.probe(work) }
        contestants.append(contestant)
        if let state { passthrough.append((contestant.name, state)) }
      } catch {
        note("\(contestant.name): left out: \(error)")
      }
    }
    return (contestants, passthrough)
  }

  /// One more round, in which nothing is timed, as counting takes time.
  private func countRequests(
    of contestants: [Contestant], as account: Account, into comparison: inout Comparison
  ) {
    guard let counter else { return }
    for workload in workloads where !workload.isAboutMounting {
      for contestant in contestants where contestant.mounts {
        guard let measurement = measure(workload, on: contestant, as: account, counter) else { continue }
        comparison.addRequests(measurement, workload, contestant.name)
      }
      note("requests counted: \(workload.name)")
    }
  }

  private func round(
    _ round: Int, of contestants: [Contestant], as account: Account, into results: inout Results
  ) throws {
    try results.idle.set()
    do {
      results.add(try RequestCost.measure(in: work), round: round)
    } catch {
      note("What a request costs is not measured: \(error)")
    }
    for workload in workloads {
      // Another one begins in each round, so that none always finds the caches as the same one left them.
      for offset in contestants.indices {
        let contestant = contestants[(offset + round) % contestants.count]
        guard let measurement = measure(workload, on: contestant, as: account) else { continue }
        results.add(measurement, workload, contestant.name, round: round)
      }
      note("round \(round) of \(rounds), \(results.idle.description): \(results.line(workload))")
    }
  }

  /// Nil when it could not be measured; a note says why.
  private func measure(
    _ workload: Workload, on contestant: Contestant, as account: Account, _ counter: RequestCounter? = nil
  ) -> Measurement? {
    if workload.isAboutMounting, !contestant.mounts { return nil }
    if workload.isGrowth, !contestant.isOurs { return nil }
    do {
      return try account.perform {
        workload.before(work.source)
        defer { workload.after(work.source) }
        var mounted = try contestant.mount(work)
        defer { mounted.unmount() }
        mounted.counter = counter
        try counter?.begin(mounted.root)
        defer { counter?.end() }
        return try workload.run(mounted)
      }
    } catch {
      note("\(workload.name) on \(contestant.name): \(error)")
      return nil
    }
  }
}
