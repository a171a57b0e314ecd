import ArgumentParser
import SystemPackage

struct Status: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Tell what a mount does: whether the kernel passes data through, and what it asks for.")

  @Argument(help: "The mount point.")
  var mountpoint: FilePath

  func run() throws {
    guard let report = MountedAnswer.of("status", mountpoint) else {
      throw Failure(.usage, "\(mountpoint): no displayfs is mounted here, or it does not answer")
    }
    Output.line(report.last == 0x0a ? Array(report.dropLast()) : report)
  }
}
