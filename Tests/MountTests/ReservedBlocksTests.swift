import CLinux
import Glibc
import SystemPackage
import Testing

private enum Image {
  /// Makes an ext4 file system with half of its 64 MiB reserved, and mounts it.
  static func mount(at root: String) -> Outcome {
    Shell.run(
      """
      truncate -s 64M '\(root).img' && mkfs.ext4 -q -F -m 50 '\(root).img' && mount -o loop '\(root).img' '\(root)' &&
        chmod 777 '\(root)'
      """)
  }

  static let canBeMounted: Bool = {
    guard let directory = try? TemporaryDirectory() else { return false }
    makeDirectory(directory.path("disk"))
    let outcome = mount(at: directory.path("disk"))
    return outcome.status == 0 && Shell.run("umount '\(directory.path("disk"))'").status == 0
  }()
}

/// Blocks that ext4 reserves for root: the daemon writes data with the rights of the client only.
@Suite(
  .mounting, .asRoot,
  .enabled(if: Image.canBeMounted, "No file system image can be mounted here."))
struct ReservedBlocksTests {
  private static let user: uid_t = 61001
  private static let modes = ["passthrough=on", "passthrough=off"]

  private func view(_ options: String) throws -> MountedView {
    try MountedView(options) { root in
      let outcome = Image.mount(at: root)
      try #require(outcome.status == 0, "\(outcome.complaint)")
      try put("", at: "\(root)/log.txt")
      chmod("\(root)/log.txt", 0o666)
    }
  }

  private struct Space {
    let free: Int
    let reserved: Int

    init(_ view: MountedView) {
      var status = statvfs()
      statvfs(view.source, &status)
      free = Int(status.f_bfree * status.f_bsize)
      reserved = free - Int(status.f_bavail * status.f_bsize)
    }
  }

  /// Appends to the log until an error comes, which it prints.
  private static let fill = """
    file = os.open("log.txt", os.O_WRONLY | os.O_APPEND)
    try:
      while True: os.write(file, bytes(1 << 16))
    except OSError as error: print(errno.errorcode[error.errno])
    """

  @Test(arguments: modes, [O_RDONLY, O_RDWR])
  func writeOfUser_whileRootHasFileOpen_leavesReservedBlocks(options: String, flags: CInt) throws {
    let view = try view("allow_other,\(options)")
    let reserved = Space(view).reserved
    let held = try OpenFile(view.at("log.txt"), flags)
    let outcome = PythonProgram(Self.fill, as: Self.user, in: view.mountPoint).run()
    #expect(outcome.text == "ENOSPC", "\(outcome.complaint)")
    #expect(held.status.st_size > 1 << 20)
    #expect(Space(view).free > reserved - 1 << 20)
  }

  /// ext4 keeps what it allocated before it found too few blocks.
  @Test(arguments: modes) func sizeAndBlocks_afterAllocationThatFailed_areThoseOfBackingFile(options: String)
    throws
  {
    let view = try view(options)
    let file = try OpenFile(view.at("log.txt"), O_RDWR)
    #expect(file.status.st_size == 0)
    #expect(failure { dfs_fallocate(file.descriptor, 0, 0, 1 << 30) } == .noSpace)
    let real = try #require(status(view.real("log.txt")))
    #expect(real.st_size > 0)
    #expect(
      eventually {
        status(view.at("log.txt"))?.st_size == real.st_size && file.status.st_blocks == real.st_blocks
      })
  }

  @Test(arguments: modes) func mappingOfUser_writtenBack_leavesReservedBlocks(options: String) throws {
    let view = try view("allow_other,\(options)")
    let reserved = Space(view).reserved
    // Through the daemon msync(2) fails; where the kernel maps the backing file the program gets SIGBUS.
    let program = """
      import mmap
      os.setgroups([]); os.setgid(\(Self.user)); os.setuid(\(Self.user))
      file = os.open("map.bin", os.O_RDWR | os.O_CREAT)
      os.ftruncate(file, 60 << 20)
      mapping = mmap.mmap(file, 60 << 20)
      try:
        for offset in range(0, 60 << 20, 4096):
          mapping[offset] = 1
          if offset % (1 << 20) == 0: mapping.flush()
      except OSError: sys.exit(1)
      """
    let outcome = PythonProgram(program, in: view.mountPoint).run()
    #expect(outcome.status != 0, "\(outcome.complaint)")
    #expect(try #require(status(view.real("map.bin"))).st_blocks > 2048)
    #expect(Space(view).free > reserved - 1 << 20)
  }

  @Test(arguments: ["passthrough=on", "passthrough=off", "passthrough=off,allow_other"])
  func writeOfRoot_usesReservedBlocks(options: String) throws {
    let view = try view(options)
    let reserved = Space(view).reserved
    let outcome = PythonProgram(Self.fill, in: view.mountPoint).run()
    #expect(outcome.text == "ENOSPC", "\(outcome.complaint)")
    #expect(Space(view).free < reserved / 2)
  }
}
