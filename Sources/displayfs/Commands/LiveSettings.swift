import ArgumentParser
import BackingTree
import CLinux
import DisplayNames
import FuseServer
import Glibc
import SystemPackage
import View

extension MountOptions {
  /// The options that can be changed on a mounted view.
  static let live = [
    "language", "extensions", "hidden", "packages", "aliases", "normalization", "matching",
    "disabled-rules",
  ]

  /// Reads all options anew: those of the mount command, with the settings that were added later.
  var live: LiveOptions {
    let given = Guarded(self.given)
    return LiveOptions { setting throws(LiveOptions.Problem) in
      var fresh = MountOptions()
      fresh.given = given.withLock { $0 }
      do throws(Failure) {
        if let setting {
          let (name, value) = try Self.parseLive(setting)
          try fresh.accept(name, value)
        }
        let options = try fresh.completed().view
        let accepted = fresh.given
        given.withLock { $0 = accepted }
        return options
      } catch { throw LiveOptions.Problem(error.description) }
    }
  }

  /// Parses `name=value` for an option that can be changed on a mounted view.
  static func parseLive(_ setting: String) throws(Failure) -> (name: String, value: String) {
    let parts = setting.parts(at: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, live.contains(parts[0]) else {
      throw Failure(
        .usage,
        "\(setting): cannot be changed on a live view; use one of: "
          + live.map { "\($0)=..." }.joined(separator: ", "))
    }
    return (parts[0], parts[1])
  }
}

struct SetOption: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "set",
    abstract: "Change an option of a mounted view.",
    discussion:
      "The change takes effect at once, and programs that watch the mount are notified. Open files stay open."
  )

  @Argument(help: "The mount point.", completion: .directory)
  var mountpoint: FilePath

  @Argument(
    help: ArgumentHelp(
      "One of \(MountOptions.live.joined(separator: ", ")), with its value.", valueName: "name=value"))
  var settings: [String]

  func run() throws {
    for setting in settings {
      let (name, value) = try MountOptions.parseLive(setting)
      guard setting.utf8.count <= LiveOptions.longestSetting else {
        throw Failure(
          .usage,
          "\(name)=...: a mounted view accepts at most \(LiveOptions.longestSetting) bytes with the option's name; mount it with this option instead"
        )
      }
      var scratch = MountOptions()
      try scratch.accept(name, value)
    }
    try MountState.expectReply(mountpoint)
    for setting in settings {
      var reply = [UInt8](repeating: 0, count: 4096)
      let count = mountpoint.withPlatformString {
        lgetxattr($0, LiveOptions.attribute + setting, &reply, reply.count)
      }
      guard count >= 0 else {
        let error = Errno(rawValue: errno)
        if error == .notPermitted {
          throw Failure(.usage, "\(mountpoint): only root and the user who mounted it may change its options")
        }
        throw MountState.failure(of: mountpoint, error)
      }
      if count > 0 { throw Failure(.usage, Text.lossy(Array(reply.prefix(count)))) }
    }
  }
}
