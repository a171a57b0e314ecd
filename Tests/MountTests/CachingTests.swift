import CLinux
import Glibc
import Testing

/// A label of SELinux, and whether files can be given one.
private let label: (value: [UInt8], canBeSet: Bool) = {
  let value = Array("system_u:object_r:user_home_t:s0".utf8)
  guard let directory = try? TemporaryDirectory() else { return (value, false) }
  return (value, setAttribute("security.selinux", to: value, of: directory.root) == nil)
}()

/// Requests that the kernel serves from its caches, and that no cached value survives a change through the mount.
@Suite(.mounting) struct CachingTests {
  private static let count = 50

  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      for number in 0..<Self.count { try put("x", at: "\(root)/Folder/file\(number).txt") }
      try put("text", at: "\(root)/report.txt")
    }
  }

  private func look(_ view: MountedView, _ ending: String) {
    for number in 0..<Self.count { #expect(status(view.at("Folder/file\(number)\(ending)"))?.st_size == 1) }
  }

  @Test(
    arguments: [("", ""), ("", ".txt"), ("profile=none", ".txt")])
  func knownNames_lookedUpAgain_needNoRequest(options: String, ending: String) throws {
    let view = try view(options)
    look(view, ending)
    // The first pass may look up entries of directories that are not watched yet, and such entries are not cacheable.
    look(view, ending)
    let before = try view.requestCount()
    look(view, ending)
    // Reading the status sends requests for the root.
    #expect(try view.requestCount() - before < Self.count / 2)
  }

  /// `ls -l` reads these two attributes of each file, the second one only until it is found to be unsupported.
  @Test func absentAccessListAndLabel_readAgain_needNoRequest() throws {
    let view = try view()
    func ask() {
      for number in 0..<Self.count {
        #expect(attribute("system.posix_acl_access", of: view.at("Folder/file\(number)")) == nil)
        #expect(errno == ENODATA)
      }
    }
    ask()
    let before = try view.requestCount("getxattr")
    ask()
    // Reading the status is a getxattr too.
    #expect(try view.requestCount("getxattr") - before < Self.count / 2)
    #expect(getxattr(view.at("report"), "security.selinux", nil, 0) == -1 && errno == EOPNOTSUPP)
  }

  @Test(.enabled(if: label.canBeSet, "No file can be given a label here."))
  func securityLabel_isReturned() throws {
    let label = label.value
    let view = try view()
    #expect(setAttribute("security.selinux", to: label, of: view.real("report.txt")) == nil)
    #expect(attributeBytes("security.selinux", of: view.at("report")) == label)
  }

  @Test func knownNames_afterTimeout_areRequestedAgain() throws {
    let view = try view("coherence=timeout,timeout=1")
    look(view, "")
    let before = try view.requestCount()
    usleep(1_200_000)
    look(view, "")
    #expect(try view.requestCount() - before >= Self.count)
  }

  @Test func otherName_afterUnlink_isGoneWhenCallReturns() throws {
    let view = try view()
    for round in 0..<20 {
      let (display, real) = (view.at("round\(round)"), view.at("round\(round).txt"))
      let (first, second) = round % 2 == 0 ? (display, real) : (real, display)
      try put("x", at: view.real("round\(round).txt"))
      #expect(isThere(first) && isThere(second) && isThere(first))
      #expect(unlink(second) == 0)
      #expect(!isThere(first))
      #expect(access(first, F_OK) == -1)
      #expect(failure { open(first, O_RDONLY) } == .noSuchFileOrDirectory)
    }
  }

  @Test func bothNames_afterRename_areCurrentWhenCallReturns() throws {
    let view = try view()
    for _ in 0..<10 {
      #expect(isThere(view.at("report")) && isThere(view.at("report.txt")))
      #expect(rename(view.at("report"), view.at("trip")) == 0)
      #expect(!isThere(view.at("report")) && !isThere(view.at("report.txt")))
      #expect(text(view.at("trip")) == "text" && text(view.at("trip.txt")) == "text")
      #expect(rename(view.at("trip.txt"), view.at("report.txt")) == 0)
      #expect(!isThere(view.at("trip")) && !isThere(view.at("trip.txt")))
    }
  }

  @Test func displayName_whenRivalIsCreated_isGoneWhenCallReturns() throws {
    let view = try view()
    for _ in 0..<10 {
      #expect(text(view.at("report")) == "text")
      try put("other", at: view.at("report.pdf"))
      #expect(!isThere(view.at("report")))
      #expect(unlink(view.at("report.pdf")) == 0)
    }
  }

  @Test func linkThroughDisplayName_afterUseOfBothNames_keepsExtension() throws {
    let view = try view()
    for round in 0..<10 {
      #expect(isThere(view.at("report")) && isThere(view.at("report.txt")) && isThere(view.at("report")))
      #expect(link(view.at("report"), view.at("link\(round)")) == 0)
      #expect(isThere(view.real("link\(round).txt")))
      #expect(link(view.at("report.txt"), view.at("real\(round)")) == 0)
      #expect(isThere(view.real("real\(round)")))
    }
  }

  @Test func linkThroughDisplayName_afterSave_keepsExtension() throws {
    let view = try view()
    for round in 0..<5 {
      try put("new", at: view.at(".report.temporary"))
      #expect(isThere(view.at("report")))
      #expect(rename(view.at(".report.temporary"), view.at("report")) == 0)
      #expect(link(view.at("report"), view.at("backup\(round)")) == 0)
      #expect(text(view.real("backup\(round).txt")) == "new")
      #expect(unlink(view.at("backup\(round)")) == 0)
    }
  }

  @Test(
    arguments: ["", "profile=none"],
    [
      "os.link(path, path + '2'); os.unlink(path + '2')",
      "os.mkdir(path + '2'); os.path.exists(path + '2/x'); os.rmdir(path + '2')",
    ])
  func getcwd_whileNamesInDirectoryChange_succeeds(options: String, change: String) throws {
    let view = try MountedView(options) { root in makeDirectory("\(root)/one/two") }
    let outcome = PythonProgram(
      """
      end = time.monotonic() + 2
      if os.fork() == 0:
          while time.monotonic() < end:
              path = '\(view.at("one/two"))/file%d' % time.monotonic_ns()
              os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
              \(change)
              os.unlink(path)
          os._exit(0)
      os.chdir('\(view.at("one/two"))')
      while time.monotonic() < end: os.getcwd()
      print(os.wait()[1], end='')
      """
    ).run()
    #expect(outcome.text == "0", "\(outcome.complaint)")
  }

  /// The kernel retries an operation only once. When both directories may have been reached by another name, one refusal covers
  /// both.
  @Test(
    arguments: [
      "os.rename('a', 'b', src_dir_fd=one, dst_dir_fd=two)",
      // The directory, and a file with two names.
      "os.stat('a.txt', dir_fd=one); os.stat('a', dir_fd=one); os.link('a', 'b', src_dir_fd=one, dst_dir_fd=two)",
    ])
  func operationOnTwoDirectories_afterBothMovedInBackingTree_succeeds(call: String) throws {
    let view = try MountedView { root in
      try put("a", at: "\(root)/one/a.txt")
      makeDirectory("\(root)/two")
    }
    let outcome = PythonProgram(
      """
      one, two = (os.open(f'\(view.mountPoint)/{name}', os.O_RDONLY) for name in ('one', 'two'))
      for name in ('one', 'two'):
          os.rename(f'\(view.real(""))/{name}', f'\(view.real(""))/{name} moved')
      end = time.monotonic() + 30
      while not os.path.lexists('\(view.mountPoint)/two moved') and time.monotonic() < end: time.sleep(0.001)
      \(call)
      print(sorted(os.listdir(two)), end='')
      """
    ).run()
    #expect(outcome.text == "['b']", "\(outcome.complaint)")
  }

  /// The kernel detaches the mounts on a dentry that it is notified to invalidate.
  @Test(.asRoot) func mountInView_whenSiblingNameIsInvalidated_stays() throws {
    let view = try view()
    let below = view.at("Folder")
    try #require(mount("none", below, "tmpfs", 0, nil) == 0)
    defer { umount2(below, CInt(MNT_DETACH)) }
    try put("mine", at: "\(below)/mine")
    #expect(isThere(view.at("report")) && isThere(view.at("report.txt")))
    #expect(unlink(view.at("report.txt")) == 0)
    #expect(eventually { !isThere(view.at("report")) })
    #expect(text("\(below)/mine") == "mine")
  }
}
