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
      MountTable.displayfs.filter { getuid() == 0 || $0.user == getuid() }.map { $0.mountPoint.description }
        .filter { $0.hasPrefix(prefix) }
    })
  var mountpoint: FilePath

  @Flag(name: .customShort("z"), help: "Detach at once, even if files are open there.")
  var lazy = false

  @Flag(help: "Detach a view whose daemon does not respond; requests that wait for it fail.")
  var force = false

  @Flag(help: "Succeed when nothing is mounted there.")
  var ifMounted = false

  @Flag(help: "Do nothing unless the daemon of the view there has died.")
  var ifDead = false

  func run() throws {
    if ifDead {
      guard let mount = MountTable.topmost(at: mountpoint), mount.isView, MountState.of(mount) == .dead else {
        return
      }
      return try Self.perform(mount, .lazy)
    }
    try Self.unmount(mountpoint, force ? .forced : lazy ? .lazy : .orderly, ifMounted: ifMounted)
  }

  enum Manner {
    /// Fails while something is in use.
    case orderly
    /// Open files stay usable until they are closed.
    case lazy
    /// Open files fail with errors from now on.
    case forced
  }

  /// - Parameter ifMounted: whether it is a success if nothing is mounted there.
  static func unmount(_ mountpoint: FilePath, _ manner: Manner, ifMounted: Bool = false) throws(Failure) {
    guard let mount = MountTable.topmost(at: mountpoint) else {
      if ifMounted { return }
      throw Failure(.mount, "\(mountpoint): nothing is mounted here")
    }
    guard mount.isView else {
      throw Failure(.usage, "\(mountpoint): the mount here is no displayfs (\(mount.type)); use umount")
    }
    try perform(mount, manner)
  }

  /// Unmounts, and retries while the mount is busy: a daemon opens its own mount for moments to notify programs of changes.
  ///
  /// - Parameter isServed: called last, by the daemon of the mount: whether there still is something to unmount.
  static func perform(
    _ mount: MountTable.Line, _ manner: Manner, if isServed: () -> Bool = { true }
  ) throws(Failure) {
    let endsConnection = manner == .forced || DaemonProcesses.isOneKilled(of: mount)
    // To read what all daemons have open takes long, so only where it is needed.
    let daemons = manner == .orderly ? DaemonProcesses(of: mount) : nil
    let limit = ContinuousClock.now + .seconds(5)
    var attempts = 0
    while true {
      // The daemon of a busy machine holds its own mount for longer. Nothing else is waited for.
      let isLast = attempts >= 20 && (ContinuousClock.now > limit || isHeld(mount, byOtherThan: daemons))
      if try attempt(mount, manner, endsConnection: endsConnection, isLast: isLast, if: isServed) {
        // The disk of the backing tree may be unmounted next: it must not be busy.
        daemons?.waitUntilEnded(milliseconds: 2000)
        return
      }
      if isLast { throw refused(mount, .resourceBusy) }
      attempts += 1
      usleep(25_000)
    }
  }

  private static func isHeld(_ mount: MountTable.Line, byOtherThan daemons: DaemonProcesses?) -> Bool {
    mount.hasMounts || BusyProcesses(of: mount).contains { !(daemons?.contain($0) ?? false) }
  }

  /// - Returns: false if the mount is busy.
  private static func attempt(
    _ mount: MountTable.Line, _ manner: Manner, endsConnection: Bool, isLast: Bool, if isServed: () -> Bool
  ) throws(Failure) -> Bool {
    if geteuid() == 0 {
      var flags: CInt = 0
      if manner != .orderly { flags |= 2 /* MNT_DETACH */ }
      if endsConnection { flags |= 1 /* MNT_FORCE, which ends the connection of a FUSE mount, too */ }
      do throws(Errno) {
        try mount.unmount(flags, if: isServed)
        return true
      } catch {
        if error == .resourceBusy { return false }
        // It has been unmounted meanwhile, as by its daemon.
        if error == .noSuchFileOrDirectory { return true }
        throw refused(mount, error)
      }
    }
    // It may have been unmounted meanwhile, as by its daemon, and another be mounted there.
    guard let present = mount.present, isServed() else { return true }
    guard present.isTopmost else { throw refused(mount, .staleNFSFileHandle) }
    if endsConnection { endConnection(of: mount) }
    let arguments = (isLast ? [] : ["-q"]) + (manner == .orderly ? ["-u"] : ["-u", "-z"]) + ["--"]
    guard
      let status = try Program.run(
        "fusermount3", arguments.map { Array($0.utf8) } + [present.mountPoint.bytes])
    else {
      throw Failure(
        .system, "fusermount3 is missing, so only root can unmount: install the package fuse3")
    }
    if status != 0 { try checkIsAllowed(mount) }
    return status == 0
  }

  /// Replaces this process with one that detaches the mount: at the limit of processes, no other can be created.
  ///
  /// Returns only if that fails.
  static func replaceProcess(unmounting path: FilePath) {
    Program.replaceProcess(with: "fusermount3", ["-u", "-z", "--"].map { Array($0.utf8) } + [path.bytes])
  }

  /// Explains why this user cannot unmount even a mount that is not busy.
  private static func checkIsAllowed(_ mount: MountTable.Line) throws(Failure) {
    if let missing = MachineChecks.missingTableOfMounts { throw Failure(.system, missing) }
    if let owner = mount.user, owner != getuid() {
      throw Failure(
        .usage, "\(mount.mountPoint) was mounted by user \(owner): only they and root can unmount it")
    }
  }

  /// Aborts the connection. The user that mounted may do that where the kernel shows its connections.
  private static func endConnection(of mount: MountTable.Line) {
    let file = open("/sys/fs/fuse/connections/\(mount.device)/abort", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    write(file, "1", 1)
    close(file)
  }

  private static func refused(_ mount: MountTable.Line, _ error: Errno) -> Failure {
    let path = mount.mountPoint
    switch error {
    case .resourceBusy:
      let busyProcesses = BusyProcesses(of: mount).sentence
      return Failure(
        .mount,
        "\(path) is busy: \(busyProcesses ?? "a program has a file or its working directory there"); end what is using it, or use -z"
      )
    case .staleNFSFileHandle, .tooManySymbolicLinkLevels:
      return Failure(.mount, "\(path): the path leads to another mount by now; try again")
    default: return Failure(.mount, "\(path): \(error)")
    }
  }
}
