import ArgumentParser
import Glibc
import SystemPackage

struct Status: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Tell what a mount does: whether the kernel passes data through, and what it asks for.")

  @Flag(help: "Print JSON.")
  var json = false

  @Flag(help: "Tell again every second, with requests for each second, until interrupted.")
  var watch = false

  @Argument(help: "The mount point.")
  var mountpoint: FilePath

  func run() throws {
    var before: StatusReport?
    while true {
      let report = try report()
      let shown = before.map { report.since($0) } ?? report
      if json {
        Output.line(JSON.object(shown.lines.map { ($0.name, Array($0.value.utf8)) }))
      } else {
        Output.line(shown.lines.map { "\($0.name): \($0.value)" }.joined(separator: "\n"))
      }
      guard watch else { return }
      before = report
      sleep(1)
      if !json { Output.line([]) }
    }
  }

  private func report() throws(Failure) -> StatusReport {
    guard let bytes = MountedAnswer.of("status", mountpoint) else {
      throw Failure(.usage, "\(mountpoint): no displayfs is mounted here, or it does not answer")
    }
    return StatusReport(bytes)
  }
}

/// What a mount answered: names and values, of which `requests` counts each kind since the mount was made.
struct StatusReport {
  var lines: [(name: String, value: String)]

  init(_ bytes: [UInt8]) {
    lines = Text.lossy(bytes).split(separator: "\n").compactMap { line in
      line.firstIndex(of: ":").map {
        (String(line[..<$0]), String(line[line.index(after: $0)...].drop { $0 == " " }))
      }
    }
  }

  /// The same, with the requests since an earlier report. What asked for the reports is among them.
  func since(_ earlier: StatusReport) -> StatusReport {
    var result = self
    let old = earlier.requests
    for index in lines.indices where lines[index].name == "requests" {
      let rates = requests.map { (name: $0.key, count: $0.value - (old[$0.key] ?? 0)) }.filter {
        $0.count > 0
      }
      result.lines[index] = (
        "requests per second",
        rates.sorted { ($1.count, $0.name) < ($0.count, $1.name) }.map { "\($0.count) \($0.name)" }
          .joined(separator: ", ")
      )
    }
    return result
  }

  private var requests: [String: Int] {
    let list = lines.first { $0.name == "requests" }?.value ?? ""
    return list.split(separator: ",").reduce(into: [:]) { counts, part in
      let words = part.split(separator: " ")
      if words.count == 2, let count = Int(words[0]) { counts[String(words[1])] = count }
    }
  }
}
