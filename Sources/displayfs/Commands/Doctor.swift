import ArgumentParser
import BackingTree
import SystemPackage

struct Doctor: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check this machine for problems with views, and report how to solve them.",
    discussion: "With SOURCE, checks that directory, too. Changes nothing.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The source of a view, mounted or not.", completion: .directory)
  var directory: FilePath?

  func run() throws {
    var findings = MachineChecks.findings
    if let directory { findings += try SourceChecks(directory, options).findings }
    if options.json {
      let objects = findings.map { finding in
        JSON.object(
          [("check", finding.check), ("grade", finding.grade.rawValue), ("finding", finding.text)]
            .map { ($0, Array($1.utf8)) }
            + (finding.remedy.map { [("remedy", Array($0.utf8))] } ?? []))
      }
      Output.line(JSON.array(objects))
    } else {
      for finding in findings { Output.line(finding.lines) }
    }
    if findings.contains(where: { $0.grade == .problem }) { throw ExitCode(ExitStatus.system.rawValue) }
  }
}

/// The result of a check, and its remedy.
struct Finding {
  enum Grade: String {
    case ok
    /// Views work, but something could be better, or some users need more.
    case advice
    /// Some user cannot mount, or a view is broken.
    case problem
  }

  let check: String
  let grade: Grade
  let text: String
  let remedy: String?

  static func ok(_ check: String, _ text: String) -> Finding {
    Finding(check: check, grade: .ok, text: text, remedy: nil)
  }
  static func advice(_ check: String, _ text: String, do remedy: String) -> Finding {
    Finding(check: check, grade: .advice, text: text, remedy: remedy)
  }
  static func problem(_ check: String, _ text: String, do remedy: String) -> Finding {
    Finding(check: check, grade: .problem, text: text, remedy: remedy)
  }

  var lines: String {
    let word = grade.rawValue + String(repeating: " ", count: 9 - grade.rawValue.count)
    return "\(word)\(check): \(text)" + (remedy.map { "\n         -> \($0)" } ?? "")
  }
}
