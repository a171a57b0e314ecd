import BackingTree
import CLinux
import Glibc
import SystemPackage
import Testing

/// What an ordinary user gets from `displayfs-passthrough`, and what not. One test at a time: what a user may register is bounded
/// for all of the user's helpers together.
@Suite(.mounting, .asRoot, .passthroughHelper, .serialized)
struct PassthroughHelperTests {
  private let user: uid_t
  private let directory: TemporaryDirectory

  init() throws {
    user = try #require(OrdinaryUser.identifier)
    directory = try TemporaryDirectory()
  }

  /// A file of a user. - Returns: its path.
  private func file(_ name: String, owner: uid_t, mode: mode_t) throws -> String {
    let path = directory.path(name)
    try put("content", at: path)
    try #require(chown(path, owner, 0) == 0 && chmod(path, mode) == 0)
    return path
  }

  private func helper(_ connection: BareConnection) throws -> PassthroughHelperProcess {
    let helper = try PassthroughHelperProcess()
    #expect(helper.register(connection.device) == 0)
    return helper
  }

  // MARK: What it registers

  @Test func fileReadableAndWritableByUser_isRegistered() throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    for (name, owner, mode) in [("own", user, mode_t(0o600)), ("for all", 0, 0o666)] {
      let file = try OpenFile(file(name, owner: owner, mode: mode))
      let id = try #require(helper.register(file.descriptor))
      #expect(id > 0, "\(name)")
    }
  }

  /// The kernel opens a registered file again for whatever a client of the mount wants to do.
  @Test func fileNotWritableByUser_isRefused() throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    for (name, owner, mode) in [
      ("root's", uid_t(0), mode_t(0o644)), ("own", user, 0o444), ("secret", 0, 0o600),
    ] {
      for flags in [O_RDONLY, O_RDWR, dfs_O_PATH] {
        let file = try OpenFile(file(name, owner: owner, mode: mode), flags)
        #expect(helper.register(file.descriptor) == -EACCES, "\(name), \(flags)")
      }
    }
  }

  @Test(arguments: ["a", "i"]) func appendOnlyOrImmutableFile_isRefused(attribute: String) throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    let path = try file("kept", owner: user, mode: 0o666)
    let file = try OpenFile(path)
    try #require(Shell.run("chattr +\(attribute) '\(path)'").status == 0)
    defer { _ = Shell.run("chattr -\(attribute) '\(path)'") }
    #expect(helper.register(file.descriptor) == -EPERM)
  }

  /// Through a registration they would be written with CAP_SYS_ADMIN.
  @Test func fileInProcOrSys_isRefused() throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    let process = Shell.start("exec setpriv --reuid=\(OrdinaryUser.owner) --clear-groups sleep 60")
    defer {
      process.send(SIGKILL)
      process.wait()
    }
    for path in ["/proc/\(process.id)/oom_score_adj", "/proc/sys/kernel/hostname", "/sys/kernel/mm/ksm/run"] {
      guard let file = try? OpenFile(path) else { continue }
      #expect(helper.register(file.descriptor) == -EOPNOTSUPP, "\(path)")
    }
  }

  @Test func nonRegularFile_isRefused() throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    var ends: [CInt] = [0, 0]
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let null = try OpenFile("/dev/null", O_RDWR)
    let folder = try OpenFile(directory.root, O_RDONLY | dfs_O_DIRECTORY)
    for descriptor in [ends[0], null.descriptor, folder.descriptor, connection.device] {
      #expect(helper.register(descriptor) == -EINVAL)
    }
  }

  // MARK: Users and mounts

  @Test func deviceOfAnotherUsersMount_isRefused() throws {
    let connection = try BareConnection(of: user + 1)
    let helper = try PassthroughHelperProcess()
    #expect(helper.register(connection.device) == -EPERM)
    #expect(helper.end() == 1)
  }

  @Test func deviceOtherThanFuse_isRefused() throws {
    let null = try OpenFile("/dev/null", O_RDWR)
    let helper = try PassthroughHelperProcess()
    #expect(helper.register(null.descriptor) == -ENODEV)
    #expect(helper.end() == 1)
  }

  @Test func deviceWithoutConnection_isRefused() throws {
    let neverMounted = try OpenFile("/dev/fuse", O_RDWR)
    let connection = try BareConnection(of: user)
    connection.unmount()
    for device in [neverMounted.descriptor, connection.device] {
      let helper = try PassthroughHelperProcess()
      #expect(helper.register(device) == -ENODEV)
      #expect(helper.end() == 1)
    }
  }

  @Test func root_isRefused() throws {
    let connection = try BareConnection(of: 0)
    let helper = try PassthroughHelperProcess(of: "root")
    #expect(helper.register(connection.device) == -EPERM)
  }

  /// A killed helper cannot unregister its files: another helper must not start to count at zero.
  @Test func connectionServedByEarlierHelper_isRefused() throws {
    let connection = try BareConnection(of: user)
    let file = try OpenFile(file("own", owner: user, mode: 0o600))
    let first = try helper(connection)
    #expect(first.register(file.descriptor) == 1)
    first.unregister(1)
    for _ in 0..<2 {
      let next = try helper(connection)
      #expect(next.register(file.descriptor) == -EBUSY)
      first.disconnect()
    }
  }

  @Test func helpersOfOneUser_shareRegistrationLimit() throws {
    let connections = try (0..<2).map { _ in try BareConnection(of: user) }
    let file = try OpenFile(file("own", owner: user, mode: 0o600))
    let helpers = try connections.map(helper)
    var ids: [Int32] = []
    for index in 0..<2000 {
      let answer = try #require(helpers[index % 2].register(file.descriptor))
      guard answer > 0 else {
        #expect(answer == -EDQUOT)
        break
      }
      ids.append(answer)
    }
    #expect(ids.count > 900 && ids.count <= 1024)
    helpers[0].unregister(ids[0])
    // The other helper's process releases the registration.
    #expect(eventually { (helpers[1].register(file.descriptor) ?? 0) > 0 })
  }

  @Test func helper_keepsNoInheritedDescriptorsOrRights() throws {
    let connection = try BareConnection(of: user)
    let helper = try helper(connection)
    let status = try #require(text("/proc/\(helper.process.id)/status"))
    for line in [
      "CapPrm:\t0000000000200000", "CapEff:\t0000000000200000", "CapInh:\t0000000000000000", "NoNewPrivs:\t1",
      "Uid:\t\(user)\t\(user)\t\(user)\t\(user)",
      // A sanitizer needs more calls than the filter allows, so with a sanitizer there is no filter.
      "Seccomp:\t\(Sanitizer.isAnyUsed ? 0 : 2)",
    ] { #expect(status.contains(line), "\(status)") }
    #expect(names("/proc/\(helper.process.id)/fd") == ["0", "1"])
    helper.disconnect()
    #expect(helper.end() == 0)
  }

  // MARK: Mounted

  private func view(build: (String) throws -> Void = { _ in }) throws -> MountedView {
    let view = try MountedView(build: build)
    view.unmount()
    let outcome = OrdinaryUser.mount(view, with: InstalledProgram.path)
    try #require(outcome.status == 0, "\(outcome.complaint)")
    return view
  }

  /// A line of `displayfs status`.
  private func reported(_ name: String, of view: MountedView) throws -> String {
    let outcome = OrdinaryUser.run(OrdinaryUser.owner, [Displayfs.path, "status", view.mountPoint])
    let line = try #require(outcome.text.split(separator: "\n").first { $0.hasPrefix("\(name): ") })
    return String(line.dropFirst(name.utf8.count + 2))
  }

  /// The kernel lets only processes with the user and the group of the mount reach it.
  private func run(_ view: MountedView, _ program: String) -> Outcome {
    let group = getpwuid(user)?.pointee.pw_gid ?? 0
    return PythonProgram(
      "os.setgroups([]); os.setgid(\(group)); os.setuid(\(user)); os.chdir('\(view.mountPoint)')\n" + program
    ).run()
  }

  /// As tar(1) and git do. What becomes of a file is known once the kernel has sent RELEASE, a moment after the close.
  @Test func newFilesOfProgramThatWritesSmallOnes_areServedUntilOneIsLarge() throws {
    let view = try view()
    let sizes = [Int](repeating: 512, count: 16) + [1 << 20, 512]
    let outcome = run(
      view,
      """
      for (number, size) in enumerate(\(sizes)):
        with open(f'{number}.bin', 'wb') as file: file.write(bytes(range(256)) * (size // 256))
        time.sleep(0.05)
      """)
    #expect(outcome.status == 0, "\(outcome.complaint)")
    // The first eight, and the one after the large one.
    #expect(try reported("opens passed through", of: view) == "9")
    #expect(try reported("opens served by the daemon", of: view) == "9")
    for (number, size) in sizes.enumerated() {
      let content = try #require(contents(view.real("\(number).bin")))
      #expect(content.count == size && content.indices.allSatisfy { content[$0] == UInt8($0 & 255) })
    }
  }

  @Test func dataOfUserMount_passesThroughCoherently() throws {
    let view = try view()
    let outcome = run(
      view,
      """
      import random
      random.seed(1)
      real = '''\(view.source)/data.bin'''
      file = os.open("data.bin", os.O_RDWR | os.O_CREAT)
      os.pwrite(file, bytes(1 << 20), 0)
      below = os.open(real, os.O_RDWR)
      reading = os.open("data.bin", os.O_RDONLY)
      for round in range(2000):
        offset, byte = random.randrange(1 << 20), bytes([random.randrange(1, 256)])
        os.pwrite(random.choice([file, below]), byte, offset)
        for each in [file, below, reading]:
          if os.pread(each, 1, offset) != byte: print("round", round, "is wrong")
      """)
    #expect(outcome.text == "" && outcome.status == 0, "\(outcome.complaint)")
    #expect(try reported("passthrough", of: view).hasPrefix("on, by displayfs-passthrough"))
    #expect(try reported("opens passed through", of: view) == "2")
    #expect(try !reported("requests", of: view).contains(" write"))
  }

  @Test func fileNotWritableByUser_isReadThroughDaemon() throws {
    let view = try view { root in try put([UInt8](repeating: 0x41, count: 1 << 20), at: "\(root)/root.bin") }
    let outcome = run(
      view,
      """
      file = os.open("root.bin", os.O_RDONLY)
      print(len(os.read(file, 2 << 20)))
      try: os.open("root.bin", os.O_RDWR)
      except PermissionError: print("refused")
      """)
    #expect(outcome.text == "1048576\nrefused", "\(outcome.complaint)")
    #expect(try reported("passthrough", of: view).contains("may not write"))
  }

  /// A message wakes the helper, which costs more than the open itself.
  @Test(arguments: ["unwritable.bin", "tmpfs/file.bin"])
  func filesThatHelperWouldRefuse_doNotWakeIt(name: String) throws {
    let view = try view { root in
      try put([UInt8](repeating: 0x41, count: 1 << 20), at: "\(root)/unwritable.bin")
      let outcome = Shell.run("mkdir '\(root)/tmpfs' && mount -t tmpfs -o mode=777 none '\(root)/tmpfs'")
      try #require(outcome.status == 0, "\(outcome.complaint)")
    }
    defer { umount2("\(view.source)/tmpfs", CInt(MNT_DETACH)) }
    let helper = try #require(helperProcess(of: view))
    func open(_ count: Int) -> Outcome {
      run(
        view,
        """
        flags = os.O_RDONLY if "\(name)" == "unwritable.bin" else os.O_RDWR | os.O_CREAT
        for _ in range(\(count)): os.close(os.open("\(name)", flags))
        """)
    }
    // The type of a file system is known once the helper has refused it.
    #expect(open(1).status == 0)
    #expect(eventually { text("/proc/\(helper)/stat")?.contains(") S ") == true })
    let before = try #require(timesWaited(by: helper))
    #expect(open(100).status == 0)
    #expect(timesWaited(by: helper) == before)
    #expect(try reported("opens served by the daemon", of: view) == "101")
    // One that it registers wakes it.
    #expect(OrdinaryUser.shell(OrdinaryUser.owner, view, "echo own >own.txt").status == 0)
    #expect(eventually { timesWaited(by: helper) ?? 0 > before })
  }

  /// How often a process has waited. (proc_pid_status(5), `voluntary_ctxt_switches`)
  private func timesWaited(by process: pid_t) -> Int? {
    text("/proc/\(process)/status")?.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
      .flatMap { Int($0.split(separator: "\t")[1]) }
  }

  private func helperProcess(of view: MountedView) -> pid_t? {
    view.daemon.flatMap { daemon in
      children(of: daemon).first { text("/proc/\($0)/comm") == "displayfs-passt\n" }
    }
  }

  @Test func filesBeyondRegistrationLimit_areServedByDaemon() throws {
    let view = try view()
    let outcome = run(
      view,
      """
      files = [os.open(f"{number}.bin", os.O_RDWR | os.O_CREAT) for number in range(1100)]
      for number, file in enumerate(files): os.pwrite(file, str(number).encode() * 100, 0)
      for number, file in enumerate(files):
        if os.pread(file, 5000, 0) != str(number).encode() * 100: print(number, "is wrong")
      for file in files: os.close(file)
      again = os.open("0.bin", os.O_RDWR)
      print(os.pread(again, 1, 0))
      """)
    #expect(outcome.text == "b'0'", "\(outcome.complaint)")
    let passed = try #require(Int(reported("opens passed through", of: view)))
    let served = try #require(Int(reported("opens served by the daemon", of: view)))
    #expect(passed > 900 && passed <= 1025 && passed + served == 1101)
    #expect(try reported("passthrough", of: view).contains("more than a user may have"))
  }

  @Test func killedDaemon_leavesNeitherMountNorHelper() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    let daemon = try #require(view.daemon)
    let helper = try #require(helperProcess(of: view))
    #expect(kill(daemon, SIGKILL) == 0)
    #expect(
      eventually(within: .work) {
        !(status("/proc/\(helper)/fd") != nil && text("/proc/\(helper)/stat")?.contains(") Z") == false)
      })
    #expect(
      eventually(within: .work) {
        OrdinaryUser.shell(OrdinaryUser.owner, view, "stat notes").errorText.contains("not connected")
      })
  }

  @Test(arguments: [SIGKILL, SIGSTOP]) func unresponsiveHelper_isReplacedByDaemon(signal: CInt) throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    let helper = try #require(helperProcess(of: view))
    #expect(OrdinaryUser.shell(OrdinaryUser.owner, view, "echo before >before.txt").status == 0)
    #expect(kill(helper, signal) == 0)
    #expect(
      OrdinaryUser.shell(OrdinaryUser.owner, view, "echo after >after.txt; cat before after").text
        == "before\nafter")
    #expect(
      try reported("passthrough", of: view) == "off: displayfs-passthrough has ended, or does not respond")
    view.unmount()
    #expect(eventually(within: .work) { !isThere("/proc/\(daemon)") })
  }

  @Test func fileWrittenByUser_leavesReservedBlocks() throws {
    let view = try MountedView { root in
      let outcome = Shell.run(
        """
        truncate -s 64M '\(root).img' && mkfs.ext4 -q -F -m 50 '\(root).img' && mount -o loop '\(root).img' '\(root)'
        """)
      try #require(outcome.status == 0, "\(outcome.complaint)")
    }
    view.unmount()
    try #require(OrdinaryUser.mount(view, with: InstalledProgram.path).status == 0)
    var space = statvfs()
    statvfs(view.source, &space)
    let reserved = space.f_bfree - space.f_bavail
    let outcome = run(
      view,
      """
      file = os.open("log.txt", os.O_WRONLY | os.O_CREAT)
      try:
        while True: os.write(file, bytes(1 << 16))
      except OSError as error: print(errno.errorcode[error.errno])
      """)
    #expect(outcome.text == "ENOSPC", "\(outcome.complaint)")
    #expect(try reported("opens passed through", of: view) == "1")
    statvfs(view.source, &space)
    #expect(space.f_bfree + 256 > reserved)
  }
}
