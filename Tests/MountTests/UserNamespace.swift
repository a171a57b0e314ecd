import Glibc
import Testing

/// User namespaces, as containers have them, and mounts that show other owners than the tree beneath. (user_namespaces(7),
/// mount_setattr(2))
enum UserNamespace {
  /// Users and groups from `inside` on stand for those from `outside` on.
  struct Range {
    let inside, outside, count: uid_t

    init(_ inside: uid_t, _ outside: uid_t, count: uid_t = 1) {
      self.inside = inside
      self.outside = outside
      self.count = count
    }

    fileprivate var text: String { "\(inside) \(outside) \(count)" }
  }

  /// Runs a script as root of a new user and mount namespace, with the root's capabilities there and no supplementary groups.
  static func run(
    _ ranges: [Range], _ script: String, in directory: String = "/"
  ) -> Outcome {
    PythonProgram(
      """
      \(fork(ranges, unsharing: "CLONE_NEWUSER | CLONE_NEWNS", as: "0"))
      _, status = os.waitpid(child, 0)
      sys.exit(os.waitstatus_to_exitcode(status))
      """.replacing("IN_CHILD", with: "os.execvp('sh', ['sh', '-c', os.environ['SCRIPT']])"), in: directory
    ).run(with: ["SCRIPT": script])
  }

  /// Mounts a tree with other owners: what belongs to a user of `inside` on the disk belongs to one of `outside` in the mount.
  static func mountIDMapped(_ tree: String, at target: String, _ ranges: [Range]) -> Outcome {
    PythonProgram(
      """
      \(fork(ranges, unsharing: "CLONE_NEWUSER", as: nil))
      namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
      # open_tree(AT_FDCWD, tree, OPEN_TREE_CLONE | O_CLOEXEC)
      mount = check(libc.syscall(428, -100, b"\(tree)", 0x80001))
      # struct mount_attr: attr_set = MOUNT_ATTR_IDMAP, attr_clr, propagation, userns_fd
      attributes = struct.pack("QQQQ", 0x100000, 0, 0, namespace)
      # mount_setattr(mount, "", AT_EMPTY_PATH, ...)
      check(libc.syscall(442, mount, b"", 0x1000, ctypes.c_char_p(attributes), len(attributes)))
      # move_mount(mount, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH)
      check(libc.syscall(429, mount, b"", -100, b"\(target)", 4))
      """.replacing("IN_CHILD", with: "os._exit(0)")
    ).run()
  }

  /// Makes `child`, which enters the namespace, waits until the ids are mapped, and then does what stands for `IN_CHILD`.
  private static func fork(_ ranges: [Range], unsharing flags: String, as user: String?) -> String {
    """
    import ctypes, struct
    CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
    libc = ctypes.CDLL(None, use_errno=True)
    def check(result):
        if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result
    (entered, entering), (mapped, mapping) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mapping)
        os.setgroups([])
        check(libc.unshare(\(flags)))
        os.write(entering, b"x")
        os.read(mapped, 1)
        \(user.map { "os.setgid(\($0)); os.setuid(\($0))" } ?? "pass")
        IN_CHILD
    os.read(entered, 1)
    for kind in "uid", "gid":
        with open(f"/proc/{child}/{kind}_map", "w") as file: file.write('''\(ranges.map(\.text).joined(separator: "\n"))''')
    \(user == nil ? "" : "os.write(mapping, b'x')")
    """
  }

  /// Whether the file system of the tests' trees can be mounted with other owners. (Linux 5.12 for ext4, 6.3 for tmpfs)
  static let canMountIDMapped: Bool = {
    guard geteuid() == 0, let directory = try? TemporaryDirectory() else { return false }
    makeDirectory(directory.path("tree"))
    makeDirectory(directory.path("mount"))
    defer { umount2(directory.path("mount"), CInt(MNT_DETACH)) }
    return mountIDMapped(directory.path("tree"), at: directory.path("mount"), [Range(0, 0)]).status == 0
  }()
}

extension Trait where Self == ConditionTrait {
  static var idMappedMounts: Self {
    .enabled(if: UserNamespace.canMountIDMapped, "The file system here cannot be mounted with other owners.")
  }
}
