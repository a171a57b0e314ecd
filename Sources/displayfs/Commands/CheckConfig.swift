import ArgumentParser

struct CheckConfig: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config",
    abstract: "Check configuration files, and report mistakes with line and column.",
    discussion:
      "Without FILE, checks the files that a mount by this user reads. Exit status 1 if there is a mistake.")

  @Argument(help: "The files; a later one takes precedence.")
  var files: [String] = []

  func run() throws {
    let paths = files.isEmpty ? ConfigurationFiles.standard : files
    let problems = ConfigurationFiles.check(paths).problems
    for problem in problems { Output.line(problem) }
    if !problems.isEmpty { throw Failure(.usage, "mistakes in the configuration: \(problems.count)") }
    for path in paths { Output.line("\(path): no mistakes") }
    if paths.isEmpty { Output.line("there is no configuration file") }
  }
}
