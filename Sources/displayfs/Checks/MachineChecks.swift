import BackingTree
import CLinux
import DisplayNames
import FuseServer
import Glibc
import PackagePictures
import SystemPackage

/// Checks of the requirements of every view on this machine. Each takes a few system calls and changes nothing.
enum MachineChecks {
  static var findings: [Finding] {
    [device, mountingByUsers, sharingByUsers, kernel, changeWatches, fileTypes, pictures, mountHelper]
      + [connections, requestTimeout, passthroughHelper, idleProcessors].compactMap { $0 } + mounts
  }

  private static var device: Finding {
    let path: FilePath = "/dev/fuse"
    guard (try? path.stat()) != nil else {
      return .problem(
        "/dev/fuse", "it is missing, so nothing can be mounted",
        do: "load the module (modprobe fuse as root), or give the container the device")
    }
    guard access("/dev/fuse", R_OK | W_OK) == 0 else {
      return .problem("/dev/fuse", "this user may not open it", do: "chmod a+rw /dev/fuse as root")
    }
    return .ok("/dev/fuse", "this user may open it")
  }

  /// The guardian of a daemon ends the connection through a file of this file system. Root's opens it without a mount point.
  private static var connections: Finding? {
    if geteuid() == 0 || MountTable.isMounted("fusectl") { return nil }
    return .advice(
      "fusectl",
      "it is not mounted, so programs may wait for ever at a mount of this user whose daemon was killed",
      do: "mount -t fusectl none /sys/fs/fuse/connections as root")
  }

  private static var mountingByUsers: Finding {
    let check = "fusermount3"
    guard let path = Program.path(of: check) else {
      let text = "it is missing, so only root can mount"
      let remedy = "install the package fuse3"
      return geteuid() == 0 ? .advice(check, text, do: remedy) : .problem(check, text, do: remedy)
    }
    guard let status = try? path.stat(), status.permissions.contains(.setUserID), status.userID.rawValue == 0
    else {
      let text = "\(path) does not run as root, so users cannot mount"
      let remedy = "chown root \(path) && chmod u+s \(path) as root, or reinstall the package fuse3"
      return geteuid() == 0 ? .advice(check, text, do: remedy) : .problem(check, text, do: remedy)
    }
    if let missing = missingTableOfMounts {
      return .problem(check, missing, do: "ln -s /proc/self/mounts /etc/mtab as root")
    }
    return .ok(check, "users can mount with \(path)")
  }

  /// The problem if fusermount3 does not find the mount table in which it looks up the mount to unmount; nil if it does.
  /// Directories and images that no installer has finished lack the table.
  static var missingTableOfMounts: String? {
    access("/etc/mtab", F_OK) == 0
      ? nil
      : "/etc/mtab is missing, so users can mount but not unmount: it should be a link to /proc/self/mounts"
  }

  private static var sharingByUsers: Finding {
    Mounter.userAllowsOthers()
      ? .ok("user_allow_other", "users may share their mounts with allow_other")
      : .advice(
        "user_allow_other", "users other than root cannot share their mounts with allow_other",
        do: "to allow it, add the line user_allow_other to /etc/fuse.conf")
  }

  private static var kernelRelease: String {
    var name = utsname()
    uname(&name)
    return withUnsafeBytes(of: &name.release) { bytes in Text.lossy(Array(bytes.prefix { $0 != 0 })) }
  }

  private static var kernelVersion: (Int, Int)? {
    let numbers = kernelRelease.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    return numbers.count == 2 ? (numbers[0], numbers[1]) : nil
  }

  /// openat2 came with Linux 5.6, passthrough of reads and writes with 6.9.
  private static var kernel: Finding {
    let release = kernelRelease
    guard let version = kernelVersion else { return .ok("kernel", release) }
    if version < (5, 6) {
      return .problem(
        "kernel", "\(release) is older than 5.6 and lacks openat2(2)",
        do: "use a newer kernel")
    }
    if version < (6, 9) {
      return .advice(
        "kernel", "\(release) works; from 6.9 on, reads and writes can be as fast as in the backing tree",
        do: "use a newer kernel if speed matters")
    }
    return .ok("kernel", release)
  }

  /// Enough watches for the directories that a busy desktop keeps in memory.
  private static let watchesAdvised = 65_536

  private static var changeWatches: Finding {
    guard let watches = ChangeWatch.limit("inotify/max_user_watches"),
      let instances = ChangeWatch.limit("inotify/max_user_instances")
    else {
      return .problem(
        "inotify", "this kernel has no inotify, so changes in the backing tree are noticed late",
        do: "use a kernel with CONFIG_INOTIFY_USER")
    }
    guard watches >= watchesAdvised else {
      return .advice(
        "inotify",
        "each user may watch \(watches) directories; a view notices changes in more directories late",
        do: "sysctl fs.inotify.max_user_watches=524288 as root")
    }
    return .ok("inotify", "\(watches) watches and \(instances) instances for each user")
  }

  /// A client sleeps until the view has replied. In a virtual machine, if the kernel does not poll for a moment before it halts a
  /// CPU, the host must start the CPU again. ("Guest halt polling" in the kernel's documentation.) Nil where the host decides, or
  /// where there is no host.
  private static var idleProcessors: Finding? {
    let check = "idle processors"
    let setting = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
    guard value("/sys/devices/system/cpu/cpuidle/current_governor") == "haltpoll",
      let nanoseconds = value(setting)
    else {
      return nil
    }
    return nanoseconds == "0"
      ? .advice(
        check,
        "this virtual machine halts them at once, and waking one takes longer than most requests to a view",
        do: "to make small operations about twice as fast, at the cost of processor time of the host, "
          + "echo 200000 > \(setting) as root")
      : .ok(check, "they poll for \(nanoseconds) ns before they halt, so most replies need no wakeup")
  }

  /// Whether the kernel ends a view that replies late. Nil where it cannot.
  private static var requestTimeout: Finding? {
    let check = "request timeout"
    let names = ["default_request_timeout", "max_request_timeout"]
    let values = names.compactMap { value("/proc/sys/fs/fuse/\($0)").flatMap { Int($0) } }
    guard values.count == names.count else { return nil }
    guard let seconds = RequestTimeout.seconds(default: values[0], maximum: values[1]) else {
      return .ok(check, "the kernel waits for as long as a view needs")
    }
    return .advice(
      check,
      "the kernel aborts a view that does not reply to a request within \(seconds) seconds, "
        + "as where the server of its source does not respond",
      do: "to have it wait, sysctl fs.fuse.\(names[0])=0 fs.fuse.\(names[1])=0 as root, then mount again")
  }

  /// The first line of a file.
  private static func value(_ file: String) -> String? {
    Directory(descriptor: AT_FDCWD).wholeFile(file).map {
      String(decoding: $0.prefix { $0 != 0x0a }, as: UTF8.self)
    }
  }

  /// Whether desktops know the types of packages (shared-mime-info).
  private static var fileTypes: Finding {
    let check = "file types"
    let variable = getenv("XDG_DATA_DIRS").map { String(cString: $0) } ?? ""
    let shared = (variable.isEmpty ? "/usr/local/share:/usr/share" : variable).parts(at: ":")
    let own =
      getenv("XDG_DATA_HOME").map { String(cString: $0) }
      ?? getenv("HOME").map { String(cString: $0) + "/.local/share" }
    let directories = shared.map { FilePath($0) } + (own.map { [FilePath($0)] } ?? [])
    if let place = directories.first(where: { knowsPackages($0.appending("mime/types")) }) {
      return .ok(check, "packages have types and icons by \(place.appending("mime"))")
    }
    if let place = directories.first(where: {
      (try? $0.appending("mime/packages/displayfs.xml").stat()) != nil
    }) {
      return .advice(
        check, "the types of packages are installed but not in the database",
        do: "update-mime-database \(place.appending("mime").quoted)")
    }
    return .advice(
      check, "desktops show packages as tar archives",
      do: "install the file types: Mount/install puts them in place, as the package does")
  }

  private static func knowsPackages(_ types: FilePath) -> Bool {
    let list = Directory(descriptor: AT_FDCWD).wholeFile("\(types)") ?? []
    return list.split(separator: UInt8(ascii: "\n")).contains(
      Array("application/x-displayfs-package".utf8)[...])
  }

  /// What decodes the icons and previews of packages.
  private static var pictures: Finding {
    let check = "displayfs-picture"
    let lacking = "packages show no pictures of their own"
    guard let program = PictureDecoder.program else {
      return .advice(
        check, "it is missing, so \(lacking)",
        do: "install it: Mount/install puts it in place, as the package does")
    }
    // Without a picture it says what else it lacks.
    do throws(PictureDecoder.Failure) { _ = try PictureDecoder(program).decode([], size: 1) } catch {
      switch error {
      case .notDecoded: break
      case .noLibrary:
        return .advice(
          check, "gdk-pixbuf is missing, so \(lacking)",
          do: "install libgdk-pixbuf-2.0-0, where file managers run")
      case .notConfined, .system:
        return .advice(check, "it cannot start, so \(lacking)", do: "run \(program) 1 to see why")
      }
    }
    return .ok(check, "file managers can show the pictures of packages")
  }

  private static var mountHelper: Finding {
    access("/sbin/mount.displayfs", X_OK) == 0
      ? .ok("/sbin/mount.displayfs", "mount(8) and fstab can mount views")
      : .advice(
        "/sbin/mount.displayfs", "mount(8) and fstab cannot mount views",
        do: "link it to \(program), as Mount/install does")
  }

  /// The program that lets the kernel read and write the files of ordinary users' mounts directly. Nil where the kernel cannot.
  private static var passthroughHelper: Finding? {
    guard let version = kernelVersion, version >= (6, 9) else { return nil }
    let check = "displayfs-passthrough"
    guard let program = PassthroughHelper.program else {
      return .advice(
        check, "it is missing, so the daemon copies the data of users' mounts",
        do: "install it: Mount/install puts it in place, as the package does")
    }
    let isSetUserID = (try? program.stat()).map {
      $0.permissions.contains(.setUserID) && $0.userID.rawValue == 0
    }
    let hasCapability = program.withPlatformString { getxattr($0, "security.capability", nil, 0) } > 0
    guard isSetUserID ?? false || hasCapability else {
      return .advice(
        check,
        "\(program) may not register files with the kernel, so the daemon copies the data of users' mounts",
        do: "setcap cap_sys_admin=ep \(program.quoted) as root")
    }
    return .ok(check, "the kernel passes the data of users' mounts through by \(program)")
  }

  private static var program: FilePath {
    (try? FilePath("/proc/self/exe").resolvingSymlinks()) ?? "displayfs"
  }

  private static var mounts: [Finding] { MountTable.displayfs.map(finding(of:)) }

  private static func finding(of mount: MountTable.Line) -> Finding {
    switch MountState.of(mount) {
    case .responding, .foreign: return .ok("mount", "\(mount.mountPoint) shows \(mount.source)")
    case .dead:
      return .problem(
        "mount",
        "the daemon of \(mount.mountPoint) has died: all calls of programs fail there",
        do:
          "displayfs unmount \(mount.mountPoint.quoted), then mount it again; what was written is in \(mount.source)"
      )
    case .failing(let error):
      return .problem(
        "mount", "\(mount.mountPoint) shows a source that fails: \(error)",
        do:
          "check that \(mount.source) can be listed (a server, a disk); if its file system was mounted anew, "
          + "run displayfs unmount \(mount.mountPoint.quoted), then mount it again")
    case .silent:
      return .problem(
        "mount", "the daemon of \(mount.mountPoint) does not respond: programs that use the mount wait",
        do: "check that \(mount.source) responds (a server, a disk); if it does, run "
          + "displayfs unmount --force \(mount.mountPoint.quoted), then mount it again")
    case .unknown:
      return .problem(
        "mount", "\(mount.mountPoint) was not examined: this user may have no further process",
        do: "raise the limit of processes (\(Program.limits))")
    }
  }
}
