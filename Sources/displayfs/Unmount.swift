import ArgumentParser
import BackingTree
import Glibc
import SystemPackage

struct Unmount: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Unmount the view at MOUNTPOINT, also one whose daemon has died.")

  @Argument(
    help: "Where the view is mounted.",
    completion: .custom { _, _, prefix in
      MountTable.displayfs.map { $0.mountPoint.description }.filter { $0.hasPrefix(prefix) }
    })
  var mountpoint: FilePath

  @Flag(name: .customShort("z"), help: "Detach at once, even if files are open there.")
  var lazy = false

  @Flag(help: "Succeed when nothing is mounted there.")
  var ifMounted = false

  func run() throws { try Self.unmount(mountpoint, lazy: lazy, ifMounted: ifMounted) }

  /// - Parameter ifMounted: whether it is well when nothing is mounted there.
  static func unmount(_ mountpoint: FilePath, lazy: Bool, ifMounted: Bool = false) throws(Failure) {
    let path = absolutePath(mountpoint)
    guard let mount = MountTable.current.last(where: { $0.mountPoint == path }) else {
      if ifMounted { return }
      throw Failure(.mount, "\(mountpoint): nothing is mounted here")
    }
    guard mount.type == "fuse.displayfs" else {
      throw Failure(.usage, "\(mountpoint): what is mounted here is no displayfs (\(mount.type)); use umount")
    }
    try perform(path, lazy: lazy)
  }

  /// - Parameter path: exactly as the table of mounts has it.
  static func perform(_ path: FilePath, lazy: Bool) throws(Failure) {
    if geteuid() == 0 {
      let flags: CInt = (lazy ? 2 /* MNT_DETACH */ : 0) | 8 /* UMOUNT_NOFOLLOW */
      if path.withPlatformString({ umount2($0, flags) }) == 0 { return }
      throw refused(path, Errno(rawValue: errno))
    }
    let arguments = (lazy ? ["-u", "-z"] : ["-u"]) + ["--"]
    guard let status = Program.run("fusermount3", arguments.map { Array($0.utf8) } + [path.bytes]) else {
      throw Failure(
        .system, "fusermount3 is missing, without which only root can unmount: install the package fuse3")
    }
    if status != 0 { throw refused(path, .resourceBusy) }
  }

  private static func refused(_ mountpoint: FilePath, _ error: Errno) -> Failure {
    error == .resourceBusy
      ? Failure(
        .mount,
        "\(mountpoint) is busy: a program has a file or its working directory there; end it (fuser -m \(mountpoint) lists them), or use -z"
      )
      : Failure(.mount, "\(mountpoint): \(error)")
  }

  /// Without asking the mount itself, which may be dead: only what comes before the last component is resolved.
  private static func absolutePath(_ path: FilePath) -> FilePath {
    if let leaf = path.lastComponent, leaf.kind == .regular {
      let parent = path.removingLastComponent()
      let literal = try? (parent.isEmpty ? "." : parent).resolvingSymlinks().appending(leaf)
      if let literal, MountTable.current.contains(where: { $0.mountPoint == literal }) { return literal }
    }
    return (try? path.resolvingSymlinks()) ?? path
  }
}
