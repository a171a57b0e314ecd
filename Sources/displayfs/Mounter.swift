import BackingTree
import CFuse
import DisplayNames
import FuseServer
import Glibc
import Logging
import SystemPackage
import View

/// Checks what can be checked beforehand, then mounts, in the foreground or as a daemon.
struct Mounter {
  private let source: String
  private let mountPoint: String
  private let options: MountOptions

  init(source: String, mountPoint: String, options: MountOptions) throws(Failure) {
    self.source = try Self.directory(source, called: "SOURCE")
    self.mountPoint = try Self.directory(mountPoint, called: "MOUNTPOINT")
    self.options = options
    try checkMachine()
    try checkMountPoint()
  }

  func mount(foreground: Bool, debug: Bool) throws(Failure) {
    if foreground { return try serve(debug: debug, logHandler: StandardErrorLog.init) {} }
    try Daemon.run { (ready) throws(Failure) in
      try serve(debug: false, logHandler: SystemLog.init, onReady: ready)
    }
  }

  private func serve(
    debug: Bool, logHandler: @escaping @Sendable (String) -> any LogHandler,
    onReady: @escaping @Sendable () -> Void
  ) throws(Failure) {
    raiseDescriptorLimit()
    LoggingSystem.bootstrap(logHandler)
    let logger = Logger(label: "displayfs")
    // Both are opened before there is a mount, so that nothing is ever reached through the mount itself.
    let root = try open(source)
    let covered = try coveredDirectory()
    var viewOptions = options.view
    if !options.languageIsGiven { viewOptions.languages = LanguageList.fromEnvironment }
    let view: View
    do throws(Errno) {
      view = try View(
        source: root, covered: covered, options: viewOptions,
        tunnel: Tunnel(mode: options.tunnel.mode, timeout: options.tunnel.timeout),
        importsPackages: options.importsPackages, logger: logger)
    } catch { throw Failure(.system, "\(source): \(error)") }
    let server = Server(view: view, onReady: onReady)
    do throws(Server.MountError) {
      try server.run(at: mountPoint, options: fuseOptions, debug: debug)
    } catch { throw Failure(.mount, "\(error)") }
  }

  private var fuseOptions: [String] {
    var result = options.fuse
    func add(_ name: String, _ value: String) {
      if !result.contains(where: { $0.hasPrefix("\(name)=") }) {
        result.append("\(name)=\(MountOptions.escape(value))")
      }
    }
    add("fsname", source)
    add("subtype", "displayfs")
    result.append("default_permissions")
    return result
  }

  private func open(_ path: String) throws(Failure) -> Descriptor {
    do throws(Errno) {
      return Descriptor(adopting: try systemCall { Glibc.open(path, dfs_O_PATH | O_DIRECTORY | O_CLOEXEC) })
    } catch { throw Failure(.system, "\(path): \(error)") }
  }

  private func coveredDirectory() throws(Failure) -> CoveredDirectory? {
    guard mountPoint != "/", let slash = mountPoint.lastIndex(of: "/") else { return nil }
    let parentPath = slash == mountPoint.startIndex ? "/" : String(mountPoint[..<slash])
    let parent = try open(parentPath)
    guard let status = try? fileStatus(parent.rawValue) else { return nil }
    return CoveredDirectory(
      parent: FileIdentity(status), name: Name(String(mountPoint[mountPoint.index(after: slash)...])),
      descriptor: try open(mountPoint))
  }

  // MARK: Checks

  /// The absolute path of a directory that is there, without symlinks.
  private static func directory(_ path: String, called role: String) throws(Failure) -> String {
    guard let resolved = realpath(path, nil) else {
      let error = Errno(rawValue: errno)
      if error.rawValue == ENOTCONN {
        throw Failure(
          .mount,
          "\(path): a daemon that was mounted here has died (\(error)); run displayfs unmount \(path) first")
      }
      if error == .noSuchFileOrDirectory {
        throw Failure(
          .usage, "\(role) \(path): there is no such directory; create it with mkdir or correct the path")
      }
      throw Failure(.usage, "\(role) \(path): \(error)")
    }
    defer { free(resolved) }
    let result = String(cString: resolved)
    var status = stat()
    guard stat(result, &status) == 0 else {
      let error = Errno(rawValue: errno)
      if error.rawValue == ENOTCONN {
        throw Failure(
          .mount,
          "\(path): a daemon that was mounted here has died (\(error)); run displayfs unmount \(path) first")
      }
      throw Failure(.usage, "\(role) \(path): \(error)")
    }
    guard status.st_mode & S_IFMT == S_IFDIR else {
      throw Failure(.usage, "\(role) \(path): this is not a directory")
    }
    return result
  }

  private func checkMachine() throws(Failure) {
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
    guard Self.findProgram("fusermount3") else {
      throw Failure(
        .system, "fusermount3 is missing, without which only root can mount: install the package fuse3")
    }
    if options.allowsOthers, !Self.userAllowsOthers() {
      throw Failure(
        .usage,
        "allow_other is not permitted to users here: root can add the line user_allow_other to /etc/fuse.conf"
      )
    }
  }

  private func checkMountPoint() throws(Failure) {
    if MountTable.current.contains(where: { $0.mountPoint == mountPoint && $0.type == "fuse.displayfs" }) {
      throw Failure(
        .mount,
        "\(mountPoint) is busy: a displayfs is mounted here already; run displayfs unmount \(mountPoint) first"
      )
    }
  }

  private static func findProgram(_ name: String) -> Bool {
    let path = getenv("PATH").map { String(cString: $0) } ?? ""
    return (path.split(separator: ":").map(String.init) + ["/bin", "/usr/bin"]).contains {
      access("\($0)/\(name)", X_OK) == 0
    }
  }

  private static func userAllowsOthers() -> Bool {
    let bytes = Directory(descriptor: AT_FDCWD).wholeFile("/etc/fuse.conf") ?? []
    return bytes.split(separator: UInt8(ascii: "\n")).contains {
      String(decoding: $0, as: UTF8.self).split(whereSeparator: \.isWhitespace).first == "user_allow_other"
    }
  }

  /// Open files cost a descriptor each: use what the user may.
  private func raiseDescriptorLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

extension LanguageList {
  /// What the environment of this process asks for.
  static var fromEnvironment: [LanguageTag] {
    parse { name in getenv(name).map { String(cString: $0) } }
  }
}
