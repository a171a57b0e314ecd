import ArgumentParser
import BackingTree
import Glibc
import SystemPackage

struct Mount: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Mount a view of SOURCE at MOUNTPOINT.",
    discussion: "Returns when the view serves requests. displayfs(1) describes all options.")

  @Argument(help: "The directory to show.", completion: .directory)
  var source: FilePath

  @Argument(help: "The directory at which to show it.", completion: .directory)
  var mountpoint: FilePath

  @Option(
    name: .customShort("o"),
    help: ArgumentHelp("Mount options, separated by commas.", valueName: "option,..."),
    completion: OptionCompletion.kind)
  var options: [String] = []

  @Flag(name: .customShort("f"), help: "Stay in the foreground; log to standard error.")
  var foreground = false

  @Flag(name: .customShort("d"), help: "Print every request; implies -f.")
  var debug = false

  @Flag(help: "Show the view in the file manager of the desktop.")
  var open = false

  func run() throws {
    try Mounter(source: source, mountPoint: mountpoint, options: .completed(options)).mount(
      foreground: foreground || debug, debug: debug, opens: open)
  }
}
