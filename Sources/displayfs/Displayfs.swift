import ArgumentParser
import DisplayNames
import Glibc

/// The command `displayfs`.
struct Displayfs: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "displayfs",
    abstract: "Show a directory tree the way the macOS Finder shows it.",
    discussion: "displayfs SOURCE MOUNTPOINT [-o OPTION,...] is short for displayfs mount.",
    version: Version.number,
    subcommands: [
      Mount.self, Unmount.self, ListMounts.self, Doctor.self, ListDirectory.self, Explain.self, RealPath.self,
      DisplayNameOf.self, Status.self, SetOption.self, CheckConfig.self, Completions.self, Thumbnail.self,
    ],
    defaultSubcommand: Mount.self)
}

@main
enum Main {
  static func main() {
    // Writing to a closed pipe must end the process silently, as it ends `ls`.
    signal(SIGPIPE, SIG_DFL)
    openClosedStandardDescriptors()
    let arguments = separated(Arguments.current)
    do {
      if HelperInvocation.isHelperName(CommandLine.arguments.first ?? "") {
        try HelperInvocation(arguments).run()
      } else if arguments.prefix(while: { $0 != "--" }).contains(where: { $0 == "-V" || $0 == "--version" }) {
        Version.print()
      } else {
        var command = try Displayfs.parseAsRoot(arguments)
        try command.run()
      }
    } catch let failure as Failure {
      end(with: failure)
    } catch let status as ExitCode {
      exit(status.rawValue)
    } catch {
      let isHelp = Displayfs.exitCode(for: error).isSuccess
      let text = Displayfs.fullMessage(for: error)
      if isHelp { Output.line(Array(text.utf8)) } else { printError(text) }
      exit(isHelp ? 0 : ExitStatus.usage.rawValue)
    }
  }

  /// Opens something for each standard descriptor that was closed by the starter: else the next file that is opened gets its
  /// number. Reading from it or writing to it still fails with EBADF.
  private static func openClosedStandardDescriptors() {
    for standard in STDIN_FILENO...STDERR_FILENO where fcntl(standard, F_GETFD) < 0 {
      _ = open("/dev/null", standard == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }

  static func end(with failure: Failure) -> Never {
    report(failure)
    exit(failure.code.rawValue)
  }

  static func report(_ failure: Failure) {
    LogWriter.flush()
    printError("displayfs: \(failure)")
  }
}

/// Splits `-oro` into `-o ro`, since mount(8) and its users write it that way. The argument parser would read `-oname=value` as
/// an option called `-oname`.
private func separated(_ arguments: [String]) -> [String] {
  let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
  return arguments[..<end].flatMap {
    $0.begins(with: "-o") && $0.utf8.count > 2 ? ["-o", String($0.unicodeScalars.dropFirst(2))] : [$0]
  }
    + arguments[end...]
}

func printError(_ text: String) { Output.line(text, to: STDERR_FILENO) }
