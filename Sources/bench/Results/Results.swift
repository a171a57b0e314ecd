/// What was measured with one kind of mount while idle processors did one thing: for every workload, contestant and round a
/// measurement.
struct Results {
  let idle: IdleProcessors
  let contestants: [String]
  private var measurements: [String: [String: [Int: Measurement]]] = [:]
  private var costs: [Int: RequestCost] = [:]

  init(idle: IdleProcessors, contestants: [String]) {
    self.idle = idle
    self.contestants = contestants
  }

  mutating func add(_ measurement: Measurement, _ workload: Workload, _ contestant: String, round: Int) {
    measurements[workload.name, default: [:]][contestant, default: [:]][round] = measurement
  }

  mutating func add(_ cost: RequestCost, round: Int) { costs[round] = cost }

  /// The median; nil when it was not measured.
  func median(_ workload: Workload, _ contestant: String) -> Double? {
    measurements[workload.name]?[contestant].map { bench.median($0.values.map(\.value)) }
  }

  /// How fast a contestant is, with the backing directory in the same round as 1: the median; nil where there is nothing to
  /// compare with. From one round to the next a shared machine may be another.
  func ratio(_ workload: Workload, _ contestant: String) -> Double? {
    perRound(workload, contestant) { round, own in
      guard let backing = measurements[workload.name]?[contestants[0]]?[round] else { return nil }
      return backing.value > 0 && own.value > 0 ? own.value / backing.value : nil
    }
  }

  /// How long an operation takes, as a multiple of its floor: the number of its requests multiplied by what one cost in the
  /// same round. The median; nil below 0.1 requests, where the time is the kernel's own.
  func multipleOfFloor(_ workload: Workload, _ contestant: String, requests: Double) -> Double? {
    guard requests >= 0.1 else { return nil }
    return perRound(workload, contestant) { round, own in
      guard let cost = costs[round], let seconds = own.secondsPerOperation else { return nil }
      return seconds / (requests * cost.onSameProcessor)
    }
  }

  private func perRound(
    _ workload: Workload, _ contestant: String, _ value: (Int, Measurement) -> Double?
  ) -> Double? {
    let values = (measurements[workload.name]?[contestant] ?? [:]).compactMap { value($0.key, $0.value) }
    return values.isEmpty ? nil : bench.median(values)
  }

  func hasMeasured(_ workload: Workload) -> Bool { measurements[workload.name] != nil }

  var rounds: Int { measurements.values.flatMap(\.values).map(\.count).max() ?? 0 }

  /// What stands on the terminal meanwhile.
  func line(_ workload: Workload) -> String {
    workload.name + ": "
      + contestants.compactMap { contestant in
        median(workload, contestant).map { "\(contestant) \(workload.unit.text($0))" }
      }.joined(separator: ", ")
  }

  /// Markdown: a row for each workload; the backing directory as it is, the others as multiples of it.
  func table(of workloads: [Workload]) -> String {
    Markdown.table(
      ["workload"] + contestants,
      workloads.filter(hasMeasured).map { workload in
        [workload.name] + contestants.map { text(workload, $0) }
      })
  }

  private func text(_ workload: Workload, _ contestant: String) -> String {
    guard let value = median(workload, contestant) else { return "" }
    guard contestant != contestants[0], let ratio = ratio(workload, contestant) else {
      return workload.unit.text(value)
    }
    return decimal(ratio, 2)
  }

  /// What a request cost; nil where it was not measured.
  var cost: String? {
    guard !costs.isEmpty else { return nil }
    func microseconds(_ seconds: [Double]) -> String { decimal(bench.median(seconds) * 1e6, 1) }
    let remote = costs.values.compactMap(\.onAnotherProcessor)
    return "\(microseconds(costs.values.map(\.onSameProcessor))) µs"
      + (remote.isEmpty ? "" : " (\(microseconds(remote)) µs on another processor)")
  }
}
