import CLinux
import Glibc
import SystemPackage
import Testing

/// What a machine offers or not: a test that needs it is skipped where it is missing, and never passes without having run.
enum Machine {
  /// Whether a script succeeds in an empty directory beside the trees of the tests.
  private static func allows(_ script: String) -> Bool {
    guard let directory = try? TemporaryDirectory() else { return false }
    return Shell.run(script, in: directory.root).status == 0
  }

  static let hasAccessControlLists = allows("touch file && setfacl -m u:61001:r file")
  static let keepsFileFlags = allows(
    "touch file && chattr +i file && ! rm -f file; chattr -i file && chattr +a file && chattr -a file")
  static let hasTemporaryFiles = (try? OpenFile(Shell.temporaryDirectory, dfs_O_TMPFILE | O_RDWR)) != nil
  static let hasDirectIO: Bool = {
    guard let directory = try? TemporaryDirectory() else { return false }
    return (try? OpenFile(directory.path("file"), O_RDWR | O_CREAT | dfs_O_DIRECT)) != nil
  }()
  static let makesLocales = allows("localedef -i sv_SE -f UTF-8 ./sv_SE.UTF-8")
  static let hasLoopDevices = allows(
    "truncate -s 16M image && mkfs.ext4 -q image && mkdir disk && mount -o loop image disk && umount disk")
  /// Linux 6.10 and newer name the subvolume of a file. (STATX_SUBVOL)
  static let numbersSubvolumes = allows(
    """
    truncate -s 128M image && mkfs.btrfs -q image && mkdir disk && mount -o loop image disk && umount disk &&
    printf '6.10\\n%s\\n' "$(uname -r)" | sort -CV
    """)
  static let mountsHFSPlus = allows(
    """
    modprobe hfsplus 2>/dev/null || true
    grep -qw hfsplus /proc/filesystems && command -v xorriso && command -v python3
    """)
  static let hasUserNamespaces = allows(
    "unshare -Urm /bin/sh -c 'echo 12 >/proc/sys/user/max_inotify_watches && test -w /dev/fuse && mount -t tmpfs none .'"
  )
  static let hasOtherUsers =
    Shell.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", Displayfs.path, "--version"])
    .status == 0

  static func keepsAttribute(_ name: String, _ value: [UInt8]) -> Bool {
    guard let directory = try? TemporaryDirectory() else { return false }
    let path = directory.path("file")
    return (try? put("x", at: path)) != nil && setAttribute(name, to: value, of: path) == nil
  }

  static let keepsExtendedAttributes = keepsAttribute("user.probe", [1])
  static let keepsFileCapabilities = keepsAttribute("security.capability", netRaw)
  /// CAP_NET_RAW, permitted and effective, version 2.
  static let netRaw: [UInt8] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]

  /// Whether new entries of a directory soon get the inode number of one that was removed there.
  static let reusesInodeNumbers: Bool = {
    guard let directory = try? TemporaryDirectory(), (try? put("x", at: directory.path("file"))) != nil,
      let number = status(directory.path("file"))?.st_ino, unlink(directory.path("file")) == 0
    else { return false }
    return (0..<256).contains { index in
      let path = directory.path("link\(index)")
      return symlink("nowhere", path) == 0 && status(path)?.st_ino == number
    }
  }()
}

/// The sanitizers that the tests, and the programs built with them, may have.
enum Sanitizer: String {
  case address = "__asan_init"
  case thread = "__tsan_init"

  var isUsed: Bool { dlsym(nil, rawValue) != nil }

  static var isAnyUsed: Bool { Self.address.isUsed || Self.thread.isUsed }
}

extension Trait where Self == ConditionTrait {
  static var accessControlLists: Self {
    .enabled(if: Machine.hasAccessControlLists, "No access control lists can be set here.")
  }

  static var extendedAttributes: Self {
    .enabled(
      if: Machine.keepsExtendedAttributes, "The file system here keeps no extended attributes of users.")
  }

  static var fileFlags: Self {
    .enabled(if: Machine.keepsFileFlags, "The file system here has no immutable files, or chattr is missing.")
  }

  static var fileCapabilities: Self {
    .enabled(if: Machine.keepsFileCapabilities, "File capabilities cannot be set here.")
  }

  static var hfsPlus: Self {
    .enabled(if: Machine.mountsHFSPlus, "The kernel has no hfsplus, or xorriso or python3 is missing.")
  }

  static var birthTimes: Self {
    .enabled(
      if: !kernelRelease.lexicographicallyPrecedes([6, 6]),
      "Linux requests birth times (FUSE_STATX) since 6.6.")
  }

  static var temporaryFiles: Self {
    .enabled(if: Machine.hasTemporaryFiles, "The file system here has no O_TMPFILE.")
  }

  static var directIO: Self { .enabled(if: Machine.hasDirectIO, "The file system here has no O_DIRECT.") }

  static var gdkPixbuf: Self {
    .enabled(
      if: dlopen("libgdk_pixbuf-2.0.so.0", RTLD_NOW) != nil,
      "gdk-pixbuf, which decodes pictures, is not installed: Mount/setup --tests installs it.")
  }

  static var locales: Self { .enabled(if: Machine.makesLocales, "There is no data of locales here.") }

  static var loopDevices: Self { .enabled(if: Machine.hasLoopDevices, "No loop device can be mounted here.") }

  static var numberedSubvolumes: Self {
    .enabled(
      if: Machine.numbersSubvolumes, "No Btrfs can be mounted here, or Linux does not number its subvolumes.")
  }

  static var userNamespaces: Self {
    .enabled(if: Machine.hasUserNamespaces, "User namespaces cannot be made or cannot mount here.")
  }

  /// For tests in which an ordinary user runs `displayfs`.
  static var programForAll: Self {
    .enabled(
      if: geteuid() != 0 || Machine.hasOtherUsers,
      "Other users cannot run what is tested: it is in a directory that is closed to them.")
  }

  static var reusedInodeNumbers: Self {
    .enabled(if: Machine.reusesInodeNumbers, "The file system here does not reuse inode numbers at once.")
  }

  /// Where the contract makes data pass through the kernel: mounts of root, from Linux 6.9 on.
  static var passthrough: Self {
    .enabled(if: isPassthroughExpected, "Data passes through in mounts of root from Linux 6.9 on.")
  }
}

/// Whether the kernel must take the data of a view's files from the backing files itself.
let isPassthroughExpected = geteuid() == 0 && !kernelRelease.lexicographicallyPrecedes([6, 9])
