import ArgumentParser
import Glibc
import SystemPackage

struct Unmount: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Unmount the view at MOUNTPOINT, also one whose daemon has died.")

  @Argument(help: "Where the view is mounted.")
  var mountpoint: String

  @Flag(name: .customShort("z"), help: "Detach at once, even if files are open there.")
  var lazy = false

  func run() throws {
    let path = absolutePath(mountpoint)
    guard let mount = MountTable.current.last(where: { $0.mountPoint == path }) else {
      throw Failure(.mount, "\(mountpoint): nothing is mounted here")
    }
    guard mount.type == "fuse.displayfs" else {
      throw Failure(.usage, "\(mountpoint): what is mounted here is no displayfs (\(mount.type)); use umount")
    }
    if geteuid() == 0 {
      if umount2(path, (lazy ? 2 /* MNT_DETACH */ : 0) | 8 /* UMOUNT_NOFOLLOW */) == 0 { return }
      throw refused(Errno(rawValue: errno))
    }
    let arguments = ["fusermount3", "-u"] + (lazy ? ["-z"] : []) + ["--", path]
    var cArguments: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    defer { for argument in cArguments { free(argument) } }
    var child: pid_t = 0
    guard posix_spawnp(&child, "fusermount3", nil, nil, &cArguments, environ) == 0 else {
      throw Failure(
        .system, "fusermount3 is missing, without which only root can unmount: install the package fuse3")
    }
    var status: CInt = 0
    waitpid(child, &status, 0)
    if status != 0 { throw refused(.resourceBusy) }
  }

  private func refused(_ error: Errno) -> Failure {
    error == .resourceBusy
      ? Failure(
        .mount,
        "\(mountpoint) is busy: a program has a file or its working directory there; end it (fuser -m \(mountpoint) lists them), or use -z"
      )
      : Failure(.mount, "\(mountpoint): \(error)")
  }

  /// Without asking the mount itself, which may be dead: only what comes before the last component is resolved.
  private func absolutePath(_ path: String) -> String {
    var trimmed = path
    while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
    let slash = trimmed.lastIndex(of: "/")
    let parent = slash.map { $0 == trimmed.startIndex ? "/" : String(trimmed[..<$0]) } ?? "."
    let leaf = slash.map { String(trimmed[trimmed.index(after: $0)...]) } ?? trimmed
    if leaf != ".", leaf != "..", !leaf.isEmpty, let resolved = realpath(parent, nil) {
      defer { free(resolved) }
      let directory = String(cString: resolved)
      let literal = directory == "/" ? "/\(leaf)" : "\(directory)/\(leaf)"
      if MountTable.current.contains(where: { $0.mountPoint == literal }) { return literal }
    }
    guard let resolved = realpath(trimmed, nil) else { return trimmed }
    defer { free(resolved) }
    return String(cString: resolved)
  }
}
