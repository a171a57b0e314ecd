import CLinux
import Glibc
import SystemPackage
import Testing

/// A file system that fails on demand. It has a file `notes.txt`, an empty directory `Folder` and a symlink `link`, and two empty
/// directories that it does not list, `.snap` and `host`.
///
/// A process of its own serves the FUSE protocol until the file system is unmounted. While `error` is nil all requests succeed.
/// Otherwise all fail with it, except those for names, attributes and listings. An entry of the name `unreadable` is listed,
/// and to look it up fails (EIO).
final class FaultyFileSystem {
  private let control: String

  /// Mounts the file system at a new directory.
  init(at path: String) throws {
    control = "\(path)-error"
    makeDirectory(path)
    try put("0", at: control)
    try put("", at: "\(control)-name")
    // It ends with the mount.
    _ = PythonProgram(
      Self.program.replacing("CONTROL", with: control).replacing("PATH", with: path)
    ).start()
    try waitUntil { Displayfs.isMounted(path) }
  }

  var error: Errno? {
    didSet { try? put("\(error?.rawValue ?? 0)", at: control) }
  }

  var unreadable: String? {
    didSet { try? put(unreadable ?? "", at: "\(control)-name") }
  }

  private static let program = #"""
    import ctypes, struct
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if libc.mount(b"faulty", b"PATH", b"fuse.faulty", 0, options.encode()): sys.exit(ctypes.get_errno())

    FILES = {1: (0o40755, 4096), 2: (0o100644, 11), 3: (0o40755, 4096), 4: (0o120777, 5), 5: (0o40755, 4096)}
    NAMES = {b"notes.txt": 2, b"Folder": 3, b"link": 4}
    UNLISTED = {b".snap": 5, b"host": 5}
    LOOKUP, FORGET, GETATTR, READLINK, MKDIR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 5, 9, 14, 15, 16, 17, 18
    GETXATTR, LISTXATTR, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 22, 23, 25, 26, 27, 28, 29, 34, 36, 42

    EXPORT_SUPPORT = 16

    def attributes(node):
        mode, size = FILES[node]
        # A handle of FUSE looks like one of XFS for a file of such an inode number.
        return struct.pack("<6Q10I", node << 32, size, 8, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def listing(offset):
        names = [(1, b"."), (1, b"..")] + [(node, name) for name, node in NAMES.items()]
        out = b""
        for index, (node, name) in list(enumerate(names))[offset:]:
            out += struct.pack("<QQII", node, index + 1, len(name), FILES[node][0] >> 12) + name + bytes(-len(name) % 8)
        return out

    def answer(opcode, node, body):
        if opcode == INIT: return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 17, EXPORT_SUPPORT, 16, 12, 1 << 16, 1, 0, 0, *[0] * 8)
        if opcode == LOOKUP:
            found = (NAMES | UNLISTED).get(body[:-1])
            if found and body[:-1] == open("CONTROL-name", "rb").read(): raise OSError(errno.EIO, "")
            if node != 1 or not found: raise OSError(errno.ENOENT, "")
            return struct.pack("<4Q2I", found, 0, 0, 0, 0, 0) + attributes(found)
        if opcode == GETATTR: return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
        if opcode in (OPENDIR,): return struct.pack("<Q2I", 0, 0, 0)
        if opcode == READDIR: return listing(struct.unpack_from("<Q", body, 8)[0]) if node == 1 else b""
        if opcode in (RELEASE, RELEASEDIR): return b""
        if opcode == ACCESS: raise OSError(errno.ENOSYS, "")
        error = int(open("CONTROL").read() or 0)
        if error: raise OSError(error, "")
        if opcode == MKDIR:
            made = NAMES[body[8:-1]] = max(FILES) + 1
            FILES[made] = (0o40755, 4096)
            return struct.pack("<4Q2I", made, 0, 0, 0, 0, 0) + attributes(made)
        if opcode == OPEN: return struct.pack("<Q2I", 0, 1, 0)
        if opcode == READ: return b"hello world"[struct.unpack_from("<Q", body, 8)[0]:]
        if opcode == WRITE: return struct.pack("<2I", struct.unpack_from("<I", body, 16)[0], 0)
        if opcode == READLINK: return b"notes"
        if opcode == STATFS: return struct.pack("<5Q4I6I", 100, 50, 50, 10, 5, 4096, 255, 4096, 0, *[0] * 6)
        if opcode == FLUSH: return b""
        if opcode == GETXATTR: raise OSError(errno.ENODATA, "")
        if opcode == LISTXATTR: return struct.pack("<2I", 0, 0)
        raise OSError(errno.EPERM, "")

    while True:
        try: request = os.read(device, 1 << 18)
        except OSError as error:
            if error.errno == errno.ENODEV: sys.exit(0)
            continue
        size, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT): continue
        try: failed, out = 0, answer(opcode, node, request[40:])
        except OSError as error: failed, out = -error.errno, b""
        try: os.write(device, struct.pack("<IiQ", 16 + len(out), failed, unique) + out)
        except OSError: pass
    """#
}

/// Clients get the errors of a failing backing file system unchanged.
@Suite(.mounting, .asRoot) struct BackingFaultTests {
  private static let errors: [Errno] = [
    .ioError, .noSpace, Errno(rawValue: EDQUOT), .readOnlyFileSystem, .noMemory, .timedOut, .notPermitted,
    .permissionDenied, Errno(rawValue: EUCLEAN), .badMessage, Errno(rawValue: EREMOTEIO), .resourceBusy,
    Errno(rawValue: ENOKEY), .noSuchAddressOrDevice,
  ]

  /// Each by what it is called, done at a root.
  private static let operations: [(String, @Sendable (String) -> Errno?)] = [
    ("open", { root in failure { open("\(root)/notes.txt", O_RDONLY) } }),
    ("create", { root in failure { open("\(root)/new.bin", O_CREAT | O_WRONLY, 0o644) } }),
    ("mkdir", { root in failure { mkdir("\(root)/new", 0o755) } }),
    ("mknod", { root in failure { mkfifo("\(root)/pipe", 0o644) } }),
    ("symlink", { root in failure { symlink("x", "\(root)/other") } }),
    ("readlink", { root in
      var buffer = [CChar](repeating: 0, count: 16)
      return failure { CInt(truncatingIfNeeded: readlink("\(root)/link", &buffer, 16)) }
    }),
    ("link", { root in failure { link("\(root)/notes.txt", "\(root)/other") } }),
    ("unlink", { root in failure { unlink("\(root)/notes.txt") } }),
    ("rmdir", { root in failure { rmdir("\(root)/Folder") } }),
    ("rename", { root in failure { rename("\(root)/notes.txt", "\(root)/other.txt") } }),
    ("chmod", { root in failure { chmod("\(root)/notes.txt", 0o600) } }),
    ("chown", { root in failure { chown("\(root)/notes.txt", 1, 1) } }),
    ("utimes", { root in failure { utimes("\(root)/notes.txt", nil) } }),
    ("truncate", { root in failure { truncate("\(root)/notes.txt", 3) } }),
    ("setxattr", { root in setAttribute("user.tag", to: [1], of: "\(root)/notes.txt") }),
    ("getxattr", { root in
      failure { CInt(truncatingIfNeeded: lgetxattr("\(root)/notes.txt", "user.tag", nil, 0)) }
    }),
    ("listxattr", { root in failure { CInt(truncatingIfNeeded: llistxattr("\(root)/notes.txt", nil, 0)) } }),
    ("removexattr", { root in failure { lremovexattr("\(root)/notes.txt", "user.tag") } }),
    ("statfs", { root in
      var status = statvfs()
      return failure { statvfs(root, &status) }
    }),
  ]

  private static let openOperations: [(String, @Sendable (CInt) -> Errno?)] = [
    ("read", { file in
      var buffer = [UInt8](repeating: 0, count: 16)
      // What is in the page cache is read without the file system.
      posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)
      return failure { CInt(truncatingIfNeeded: pread(file, &buffer, 16, 0)) }
    }),
    ("write", { file in failure { CInt(truncatingIfNeeded: pwrite(file, "x", 1, 0)) } }),
    ("ftruncate", { file in failure { ftruncate(file, 5) } }),
    ("fchmod", { file in failure { fchmod(file, 0o640) } }),
    ("fallocate", { file in failure { dfs_fallocate(file, 0, 0, 4096) } }),
    ("fsync", { file in failure { fsync(file) } }),
    ("fdatasync", { file in failure { fdatasync(file) } }),
    // Last: what a delayed write comes to.
    ("close", { file in failure { close(dup(file)) } }),
  ]

  @Test(arguments: ["language=en", "profile=none"])
  func everyErrorOfEveryCall_isPassedOnUnchanged(options: String) throws {
    var faulty: FaultyFileSystem?
    let view = try MountedView(options) { root in faulty = try FaultyFileSystem(at: root) }
    let beneath = try #require(faulty)
    let real = try OpenFile(view.real("notes.txt"), O_RDWR)
    let shown = try OpenFile(view.at("notes.txt"), O_RDWR)
    #expect(shown.text() == "hello world")
    for error in Self.errors {
      beneath.error = error
      for (name, run) in Self.operations {
        #expect(run(view.real("")) == error, "\(name), without a view")
        #expect(run(view.at("")) == error, "\(name), beneath \(error)")
      }
      for (name, run) in Self.openOperations {
        #expect(run(real.descriptor) == error, "\(name), without a view")
        #expect(run(shown.descriptor) == error, "\(name), beneath \(error)")
      }
      beneath.error = nil
      #expect(text(view.at("notes.txt")) == "hello world")
    }
  }

  /// The only event of the entry arrives while its status cannot be read.
  @Test func entryMadeWhileItsStatusCannotBeRead_isShownAfterwards() throws {
    var faulty: FaultyFileSystem?
    let view = try MountedView { root in faulty = try FaultyFileSystem(at: root) }
    let beneath = try #require(faulty)
    #expect(view.listing().contains("notes"))
    beneath.unreadable = "Made"
    #expect(mkdir(view.real("Made"), 0o755) == 0)
    // Another entry shows that the event of the first one was seen.
    #expect(mkdir(view.real("Later"), 0o755) == 0)
    #expect(eventually(within: .work) { view.listing().contains("Later") })
    #expect(!isThere(view.at("Made")))
    beneath.unreadable = nil
    #expect(eventually(within: .work) { view.listing().contains("Made") && isThere(view.at("Made")) })
  }
}
