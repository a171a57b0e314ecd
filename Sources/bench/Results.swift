/// What was measured: for every workload and contestant one value for each round.
struct Results {
  private let contestants: [String]
  private let workloads: [Workload]
  private var values: [String: [String: [Double]]] = [:]

  init(contestants: [String], workloads: [Workload]) {
    self.contestants = contestants
    self.workloads = workloads
  }

  mutating func add(_ value: Double, workload: String, contestant: String) {
    values[workload, default: [:]][contestant, default: []].append(value)
  }

  /// The median; nil when it was not measured.
  func median(_ workload: Workload, _ contestant: String) -> Double? {
    values[workload.name]?[contestant].map { bench.median($0) }
  }

  /// How fast a contestant is, with the backing directory in the same round as 1: the median; nil where there is nothing to
  /// compare with. From one round to the next a shared machine may be another.
  func ratio(_ workload: Workload, _ contestant: String) -> Double? {
    guard let own = values[workload.name]?[contestant], let backing = values[workload.name]?[contestants[0]]
    else {
      return nil
    }
    let ratios = zip(own, backing).filter { $0 > 0 && $1 > 0 }.map { $0 / $1 }
    return ratios.isEmpty ? nil : bench.median(ratios)
  }

  /// For those who watch.
  func line(_ workload: Workload) -> String {
    workload.name + ": "
      + contestants.compactMap { contestant in
        median(workload, contestant).map { "\(contestant) \(workload.unit.text($0))" }
      }.joined(separator: ", ")
  }

  /// Markdown: a row for each workload; the backing directory as it is, the others as multiples of it.
  func table(of workloads: [Workload]) -> String {
    var rows = [["workload"] + contestants, ["---"] + contestants.map { _ in "--:" }]
    for workload in workloads where values[workload.name] != nil {
      rows.append(
        [workload.name]
          + contestants.map { contestant in
            guard let value = median(workload, contestant) else { return "" }
            guard contestant != contestants[0], let ratio = ratio(workload, contestant) else {
              return workload.unit.text(value)
            }
            return decimal(ratio, 2)
          })
    }
    return rows.map { "| " + $0.joined(separator: " | ") + " |" }.joined(separator: "\n")
  }

  /// Replaces what stands between the two marks in README.md, and writes the picture.
  func publish(in repository: String, machine: String) throws {
    let path = repository + "/README.md"
    let (begin, end) = ("<!-- Mount/bench -->\n", "<!-- end of Mount/bench -->")
    guard let readme = text(path), let from = readme.range(of: begin), let to = readme.range(of: end) else {
      throw Problem("\(path) has no lines \(begin)and \(end), between which the table belongs")
    }
    let published = workloads.filter(\.isPublished)
    let section =
      "![The ratios as bars](Mount/speed.svg)\n\n\(machine). \(legend)\n\n\(table(of: published))\n"
    try write(readme[..<from.upperBound] + section + readme[to.lowerBound...], to: path)
    try write(
      Picture(of: self, contestants: contestants, workloads: published).svg,
      to: repository + "/Mount/speed.svg")
    note("README.md and Mount/speed.svg are written.")
  }

  private var legend: String {
    let rounds = values.values.flatMap(\.values).map(\.count).max() ?? 0
    return """
      Medians of \(rounds) rounds; what the backing directory does, and the others as multiples of what it does in the same \
      round: 1 is as fast, more is faster.
      """
  }
}

/// With a fixed number of digits after the point.
func decimal(_ value: Double, _ digits: Int) -> String {
  var scale = 1.0
  for _ in 0..<digits { scale *= 10 }
  let number = Int((value * scale).rounded())
  guard digits > 0 else { return "\(number)" }
  let fraction = "\(number % Int(scale))"
  return "\(number / Int(scale))." + String(repeating: "0", count: digits - fraction.utf8.count) + fraction
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? {
    indices.first { self[$0...].hasPrefix(text) }.map { $0..<index($0, offsetBy: text.count) }
  }
}
