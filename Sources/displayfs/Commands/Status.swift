import ArgumentParser
import FuseServer
import Glibc
import SystemPackage

struct Status: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Report what a mount does: passthrough, caches and requests.",
    discussion: "Runs a command given after --, and reports what the mount did meanwhile.")

  @Flag(help: "Print JSON.")
  var json = false

  @Flag(help: "Report again every second, with the requests of that second, until interrupted.")
  var watch = false

  @Argument(help: "The mount point.", completion: .directory)
  var mountpoint: FilePath

  @Argument(
    parsing: .postTerminator,
    help: ArgumentHelp("A command and its arguments.", valueName: "command"))
  var command: [String] = []

  func run() throws {
    try MountState.expectReply(mountpoint)
    if !command.isEmpty { return try measureCommand() }
    var before: StatusReport?
    while true {
      let report = try report()
      show(before.map { report.since($0, " per second") } ?? report)
      guard watch else { return }
      before = report
      sleep(1)
      if !json { Output.line([]) }
    }
  }

  private func measureCommand() throws {
    let before = try report()
    let status = try Program.run("env", [Array("--".utf8)] + command.map(Arguments.bytes))
    show(try report().since(before))
    if status != 0 { throw ExitCode(status ?? ExitStatus.system.rawValue) }
  }

  private func show(_ report: StatusReport) {
    if json {
      Output.line(JSON.object(report.lines.map { ($0.name, Array($0.value.utf8)) }))
    } else {
      Output.line(report.lines.map { "\($0.name): \($0.value)" }.joined(separator: "\n"))
    }
  }

  private func report() throws(Failure) -> StatusReport {
    guard let bytes = MountQuery.of("status", mountpoint) else {
      throw MountState.failure(of: mountpoint, Errno(rawValue: errno))
    }
    return StatusReport(bytes)
  }
}

/// The report of a mount: names and values. Some values are counts since the mount was made.
struct StatusReport {
  var lines: [(name: String, value: String)]

  init(_ bytes: [UInt8]) {
    lines = Text.lossy(bytes).split(separator: "\n").compactMap { line in
      line.firstIndex(of: ":").map {
        (String(line[..<$0]), String(line[line.index(after: $0)...].drop { $0 == " " }))
      }
    }
  }

  /// Returns this report with the growth of the counters since an earlier report. It includes the requests for the reports.
  ///
  /// - Parameter unit: the text to append to the names of the counters.
  func since(_ earlier: StatusReport, _ unit: String = "") -> StatusReport {
    let old = Dictionary(earlier.lines.map { ($0.name, $0.value) }) { $1 }
    var result = self
    result.lines = lines.map { name, value in
      guard Statistics.counters.contains(name), let before = old[name] else { return (name, value) }
      return (name + unit, Self.growth(from: before, to: value))
    }
    return result
  }

  /// The growth of a number, or of a list of numbers with the things that they count: `12 lookup, 3 open`.
  private static func growth(from before: String, to now: String) -> String {
    if let old = Int(before), let new = Int(now) { return "\(new - old)" }
    let old = counts(before)
    let grown = counts(now).map { (name: $0.key, count: $0.value - (old[$0.key] ?? 0)) }.filter {
      $0.count > 0
    }
    return grown.sorted { ($1.count, $0.name) < ($0.count, $1.name) }.map { "\($0.count) \($0.name)" }
      .joined(separator: ", ")
  }

  private static func counts(_ list: String) -> [String: Int] {
    list.split(separator: ",").reduce(into: [:]) { counts, part in
      let words = part.split(separator: " ")
      if words.count == 2, let count = Int(words[0]) { counts[String(words[1])] = count }
    }
  }
}
