import Glibc
import SystemPackage
import Testing

/// Files that lose their name while a program has them open without an OPEN request: the kernel serves special files and O_PATH
/// descriptors by itself.
@Suite(.mounting) struct UnlinkedFileTests {
  /// How each is made and opened, and its type and size by fstat(2).
  private static let kinds = [
    ("os.mkfifo('it', 0o600)", "os.open('it', os.O_RDWR)", "fifo 0"),
    ("socket.socket(socket.AF_UNIX).bind('it')", "os.open('it', os.O_PATH)", "socket 0"),
    ("open('it', 'w').write('abc')", "os.open('it', os.O_PATH)", "file 3"),
    ("os.mkdir('it')", "os.open('it', os.O_PATH)", "directory"),
    ("os.symlink('target', 'it')", "os.open('it', os.O_PATH | os.O_NOFOLLOW)", "symlink 6"),
  ]

  /// Ways to take the name.
  private static let removals = [
    "(os.rmdir if os.path.isdir('it') and not os.path.islink('it') else os.unlink)('it')",
    "(os.mkdir('other') if os.path.isdir('it') and not os.path.islink('it') else os.mkfifo('other')); os.rename('other', 'it')",
  ]

  private static let look = """
    def look(file):
      status = os.fstat(file)
      kinds = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFREG: "file", stat.S_IFDIR: "directory",
        stat.S_IFLNK: "symlink", stat.S_IFCHR: "device"}
      kind = kinds[stat.S_IFMT(status.st_mode)]
      return kind + ("" if kind == "directory" else f" {status.st_size}") + f", {status.st_nlink} links"
    """

  private func run(_ script: String, in view: MountedView) -> Outcome {
    PythonProgram("import socket, stat\n\(Self.look)\n\(script)", in: view.mountPoint).run()
  }

  @Test(arguments: kinds, removals)
  func fstat_afterLastNameIsRemoved_reportsNoLinks(
    kind: (make: String, open: String, status: String), removal: String
  ) throws {
    let outcome = run(
      """
      \(kind.make)
      file = \(kind.open)
      \(removal)
      print(look(file))
      """, in: try MountedView())
    #expect(outcome.text == "\(kind.status), 0 links", "\(outcome.complaint)")
  }

  @Test func fstat_ofFileWrittenAfterItsRemoval_reportsItsSize() throws {
    let outcome = run(
      """
      file = os.open("it", os.O_RDWR | os.O_CREAT)
      os.unlink("it")
      os.write(file, b"hello")
      other = os.open(f"/proc/self/fd/{file}", os.O_PATH)
      os.close(file)
      time.sleep(0.1)
      print(look(other))
      """, in: try MountedView())
    #expect(outcome.text == "file 5, 0 links", "\(outcome.complaint)")
  }

  @Test(.asRoot) func unlinkedDevice_staysWritable() throws {
    let view = try MountedView("dev")
    let outcome = view.shell(
      "mknod null c 1 3 && exec 3<>null && rm null && echo x | cat >&3 && stat -L -c '%F %h' /proc/self/fd/3")
    #expect(outcome.text == "character special file 0", "\(outcome.complaint)")
  }

  @Test func unlinkedPipe_countsLinksAndChangesMode() throws {
    let outcome = run(
      """
      os.mkfifo("it", 0o600)
      file = os.open("it", os.O_RDWR)
      os.link("it", "other"); os.unlink("it"); print(look(file))
      os.unlink("other"); print(look(file))
      os.fchmod(file, 0o640); print(oct(os.fstat(file).st_mode & 0o777))
      """, in: try MountedView())
    #expect(outcome.text == "fifo 0, 1 links\nfifo 0, 0 links\n0o640", "\(outcome.complaint)")
  }

  @Test func targetOfUnlinkedSymlink_isReadThroughDescriptor() throws {
    let outcome = run(
      """
      os.symlink("target", "it")
      file = os.open("it", os.O_PATH | os.O_NOFOLLOW)
      os.unlink("it")
      print(os.readlink("", dir_fd=file))
      """, in: try MountedView())
    #expect(outcome.text == "target", "\(outcome.complaint)")
  }

  @Test func openPipe_removedInBackingTree_staysKnown() throws {
    let view = try MountedView { root in mkfifo("\(root)/it", 0o600) }
    let pipe = try OpenFile(view.at("it"), O_RDWR)
    #expect(unlink(view.real("it")) == 0)
    try waitUntil { !isThere(view.at("it")) }
    var result = stat()
    #expect(failure { fstat(pipe.descriptor, &result) } == nil)
    #expect(result.st_mode & S_IFMT == S_IFIFO && result.st_nlink == 0)
  }

  /// More pipes than the daemon could hold at most.
  @Test func manyUnlinkedOpenPipes_leaveMountWorking() throws {
    let view = try MountedView()
    let outcome = run(
      """
      files = []
      for number in range(900):
        os.mkfifo("it"); files.append(os.open("it", os.O_RDWR)); os.unlink("it")
      print(look(files[-1]))
      open("after", "w").write("x")
      """, in: view)
    #expect(outcome.text == "fifo 0, 0 links", "\(outcome.complaint)")
    #expect(text(view.at("after")) == "x")
  }
}
