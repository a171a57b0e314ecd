/// Everything that was measured with one kind of mount.
struct Comparison {
  let kind: MountKind
  let workloads: [Workload]
  let contestants: [String]
  /// One for each thing that idle processors can be made to do.
  var results: [Results]
  /// Of what does not depend on the round: requests of one operation, by workload and contestant.
  private var requests: [String: [String: Double]] = [:]
  /// What `displayfs status` says of passthrough, by contestant.
  var passthrough: [(contestant: String, state: String)] = []

  init(_ kind: MountKind, _ workloads: [Workload], contestants: [String], idle: [IdleProcessors]) {
    self.kind = kind
    self.workloads = workloads
    self.contestants = contestants
    results = idle.map { Results(idle: $0, contestants: contestants) }
  }

  mutating func addRequests(_ measurement: Measurement, _ workload: Workload, _ contestant: String) {
    requests[workload.name, default: [:]][contestant] = measurement.requestsPerOperation
  }

  /// Markdown: what was compared, and all tables.
  ///
  /// - Parameter picture: the address of the picture that stands above the tables; nil for none.
  func report(of workloads: [Workload], picture: String? = nil) -> String {
    let speed = results.flatMap { results in
      ["\(capitalized(results.idle.description)):", results.table(of: workloads)]
    }
    var parts = ["### \(kind.title)"]
    if let picture { parts.append("![The ratios as bars](\(picture))") }
    parts += [legend] + speed
    if !requests.isEmpty { parts += [requestsLegend, requestsTable(of: workloads)] }
    return parts.joined(separator: "\n\n")
  }

  private var legend: String {
    let states = passthrough.map { "in \($0.contestant) \($0.state)" }.joined(separator: "; ")
    return """
      \(Machine.description). Medians of \(results.map(\.rounds).max() ?? 0) rounds; what the backing directory does, and the \
      others as multiples of what it does in the same round: 1 is as fast, more is faster. Passthrough, as \
      `displayfs status` has it: \(states).
      """
  }

  private var requestsLegend: String {
    let costs = results.compactMap { results in
      results.cost.map { "\($0) with \(results.idle.description)" }
    }
    guard !costs.isEmpty else { return "Requests that the kernel sends to the server for one operation:" }
    return """
      Requests that the kernel sends to the server for one operation, and in brackets the time of the operation as a \
      multiple of the floor, which is their number multiplied by what one cost in the same round, with client and server on \
      one processor: \(costs.joined(separator: ", ")). Data, the backing file system and wakeups of another processor come \
      on top; requests that no program waits for can bring it below 1. An operation is what is done with one name, one entry \
      of a listing, a piece of 1 MiB or 4 KiB, or the run of a program:
      """
  }

  private func requestsTable(of workloads: [Workload]) -> String {
    let contestants = contestants.dropFirst()
    return Markdown.table(
      ["workload"] + contestants,
      workloads.filter { requests[$0.name] != nil }.map { workload in
        [workload.name] + contestants.map { text(workload, $0) }
      })
  }

  private func text(_ workload: Workload, _ contestant: String) -> String {
    guard let count = requests[workload.name]?[contestant] else { return "" }
    let multiples = results.compactMap { $0.multipleOfFloor(workload, contestant, requests: count) }
    let shown = threeDigits(count)
    return multiples.isEmpty
      ? shown : "\(shown) (\(multiples.map { threeDigits($0) + "×" }.joined(separator: ", ")))"
  }
}
