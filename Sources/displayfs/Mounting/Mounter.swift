import BackingTree
import CLinux
import DisplayNames
import FuseServer
import Glibc
import Logging
import SystemPackage
import View

/// Checks the requirements, then mounts, in the foreground or as a daemon.
struct Mounter {
  private let source: FilePath
  private let mountPoint: FilePath
  private let options: MountOptions

  init(source: FilePath, mountPoint: FilePath, options: MountOptions) throws(Failure) {
    try Self.cleanUp(mountPoint)
    self.source = try Self.directory(source, called: "SOURCE")
    self.mountPoint = try Self.directory(mountPoint, called: "MOUNTPOINT")
    self.options = options
    try checkMachine()
    try checkMountPoint()
  }

  func mount(foreground: Bool, debug: Bool, opens: Bool = false) throws(Failure) {
    if foreground {
      DescriptorLimit.raise()
      return try serve(debug: debug, logHandler: StandardErrorLog.init) { if opens { openInFileManager() } }
    }
    try Daemon.run { (ready) throws(Failure) in
      try serve(debug: false, logHandler: SystemLog.init, onReady: ready)
    } failed: { failure in
      if let mount = failure.mount?.present, mount.isTopmost {
        Unmount.replaceProcess(unmounting: mount.mountPoint)
      }
    }
    if opens { openInFileManager() }
  }

  /// On a desktop without a file manager, the mount stays.
  private func openInFileManager() {
    do throws(Failure) {
      if try Program.start("xdg-open", [mountPoint.bytes]) != nil { return }
      printError(
        "displayfs: \(mountPoint) is mounted; to show it in a file manager, install xdg-utils (xdg-open)")
    } catch {
      printError("displayfs: \(mountPoint) is mounted, but no file manager was started: \(error)")
    }
  }

  private func serve(
    debug: Bool, logHandler: @escaping @Sendable (String) -> any LogHandler,
    onReady: @escaping @Sendable () -> Void
  ) throws(Failure) {
    takeNoLimits()
    Signals.block()
    LoggingSystem.bootstrap(logHandler)
    let logger = Logger(label: "displayfs")
    // A thread that impersonates a client has only the client's groups. Root's own groups grant nothing that root lacks. They
    // are dropped in the foreground too, since nothing else runs in this process. No thread has been created yet.
    if geteuid() == 0, dfs_drop_groups() != 0 {
      logger.warning(
        "the daemon's supplementary groups cannot be dropped (\(Errno(rawValue: errno))), as in a user namespace that denies setgroups: changes by users other than root are refused"
      )
    }
    // Both are opened before the mount exists, so that nothing is ever reached through the mount itself.
    let root = try Self.readable(Self.open(source))
    let covered = try coveredDirectory()
    let view: View
    do throws(Errno) {
      view = try View(
        source: root, covered: covered, options: options.view, coherence: options.coherence,
        tunnel: Tunnel(mode: options.tunnel.mode, timeout: options.tunnel.timeout),
        importsPackages: options.importsPackages, isExported: options.isExported,
        isShared: options.fuse.contains("allow_other"), logger: logger)
    } catch {
      if options.isExported, error.rawValue == EOPNOTSUPP {
        throw Failure(
          .usage,
          "\(source): file handles of its file system cannot be kept, so a view of it cannot be exported; leave out the option "
            + "export, or use a source on ext4, XFS, Btrfs, F2FS or tmpfs")
      }
      throw Failure(.system, "\(source): \(error)")
    }
    let server = Server(
      view: view, passthrough: options.passthrough, locks: options.locks, liveOptions: options.live,
      onReady: {
        ServiceManager.ready("Shows \(source) at \(mountPoint)")
        onReady()
      }, onStopping: ServiceManager.stopping)
    Signals(server: server, mountPoint: mountPoint, logger: logger).serve()
    do throws(Server.MountError) {
      try server.run(at: mountPoint, options: fuseOptions, debug: debug)
    } catch { throw Failure(.mount, "\(error)", mount: error.mount) }
  }

  /// The limits of the user that started the daemon must not limit the clients of the mount, and the limits of the clients must
  /// hold.
  private func takeNoLimits() {
    dfs_drop_resource_capability()
    // A file that must not grow (`ulimit -f`) and a log that no process reads any more become errors of one call. A lease that
    // is broken was to be given back anyway.
    for signal in [SIGXFSZ, SIGPIPE, SIGIO] { Glibc.signal(signal, SIG_IGN) }
  }

  /// The options as bytes, since the name of the source is bytes.
  private var fuseOptions: [[UInt8]] {
    var result = options.fuse
    func add(_ name: String, _ value: String) {
      if !result.contains(where: { $0.begins(with: "\(name)=") }) {
        result.append("\(name)=\(MountOptions.escape(value))")
      }
    }
    add("fsname", Arguments.text(source.bytes))
    add("subtype", "displayfs")
    result.append("default_permissions")
    return result.map(Arguments.bytes)
  }

  private static func open(_ path: FilePath) throws(Failure) -> Descriptor {
    do throws(Errno) { return try path.openDirectory() } catch { throw Failure(.system, "\(path): \(error)") }
  }

  /// The same directory, opened for reading where that is permitted and sends no message to a server. Its attributes can then be
  /// read without a path through `/proc`: newer kernels request the access list of a mount's root in each path walk of a user that
  /// does not own it.
  private static func readable(_ directory: consuming Descriptor) -> Descriptor {
    guard FileSystemKind(of: directory.rawValue).isLocal else { return directory }
    do throws(Errno) {
      return try Directory(descriptor: directory.rawValue).openForReading()
    } catch { return directory }
  }

  private func coveredDirectory() throws(Failure) -> CoveredDirectory? {
    guard let name = mountPoint.lastComponent else { return nil }
    let parent = try Self.open(mountPoint.removingLastComponent())
    guard let status = try? fileStatus(parent.rawValue) else { return nil }
    return CoveredDirectory(
      parent: FileIdentity(status), name: Name(name.bytes), descriptor: try Self.open(mountPoint))
  }

  // MARK: Checks

  /// Unmounts a mount that a dead daemon has left at the mount point: it is of no use any more. A mount is reported where the
  /// daemon does not reply, since a request to it would not return, and where the source fails, since programs may wait until it
  /// works again.
  ///
  /// Later steps report other problems with the mount point.
  private static func cleanUp(_ mountPoint: FilePath) throws(Failure) {
    guard let mount = MountTable.topmost(at: mountPoint), mount.isView else { return }
    let state = MountState.of(mount)
    switch state {
    case .dead: try Unmount.perform(mount, .lazy)
    case .unknown: throw Failure(.system, "\(mountPoint): a displayfs is mounted here; \(state.sentence)")
    case .silent:
      throw Failure(
        .mount,
        "\(mountPoint): a displayfs is mounted here whose daemon does not respond; wait for it, or detach it with "
          + "displayfs unmount --force \(mountPoint.quoted)")
    case .failing:
      throw Failure(.mount, "\(mountPoint): a displayfs is mounted here already; \(state.sentence)")
    case .responding, .foreign: break
    }
  }

  /// Resolves a path to the absolute path of an existing directory, without symlinks.
  private static func directory(_ path: FilePath, called role: String) throws(Failure) -> FilePath {
    do throws(Errno) {
      let resolved = try path.resolvingSymlinks()
      try resolved.statBypassingCache()
      if try resolved.stat().type == .directory { return resolved }
    } catch {
      if let mount = MountTable.topmost(at: path), mount.isView, MountState.of(mount) == .dead {
        throw Failure(
          .mount,
          "\(path): a daemon that was mounted here has died (\(error)); run displayfs unmount \(path.quoted) first"
        )
      }
      guard error.rawValue == ENOENT else { throw Failure(.usage, "\(role) \(path): \(error)") }
      throw Failure(
        .usage, "\(role) \(path): there is no such directory; create it with mkdir or correct the path")
    }
    throw Failure(.usage, "\(role) \(path): this is not a directory")
  }

  private func checkMachine() throws(Failure) {
    if options.isExported, geteuid() != 0 {
      throw Failure(
        .usage,
        "the option export needs root: only root may open files by their handles; leave the option out, or mount as root"
      )
    }
    if access("/dev/fuse", F_OK) == 0, access("/dev/fuse", R_OK | W_OK) != 0 {
      throw Failure(
        .usage,
        "/dev/fuse may not be opened by this user: its mode should be 0666 (chmod a+rw /dev/fuse as root)")
    }
    if access("/dev/fuse", F_OK) != 0 {
      throw Failure(
        .system,
        "/dev/fuse is missing: load the kernel module (modprobe fuse), or give the container the device")
    }
    guard geteuid() != 0 else { return }
    guard Program.path(of: "fusermount3") != nil else {
      throw Failure(
        .system, "fusermount3 is missing, so only root can mount: install the package fuse3")
    }
    if options.allowsOthers, !Self.userAllowsOthers() {
      throw Failure(
        .usage,
        "allow_other is not permitted to users here: root can add the line user_allow_other to /etc/fuse.conf"
      )
    }
  }

  private func checkMountPoint() throws(Failure) {
    if MountTable.displayfs.contains(where: { $0.mountPoint == mountPoint }) {
      throw Failure(
        .mount,
        "\(mountPoint) is busy: a displayfs is mounted here already; run displayfs unmount \(mountPoint.quoted) first"
      )
    }
  }

  static func userAllowsOthers() -> Bool {
    let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/etc/fuse.conf") ?? []
    return bytes.split(separator: UInt8(ascii: "\n")).contains {
      String(decoding: $0, as: UTF8.self).split(whereSeparator: \.isWhitespace).first == "user_allow_other"
    }
  }
}
