import Glibc
import Testing

/// Whether a child of `program` is in a system call: its line in `/proc/PID/syscall` begins with `call`.
private func isChildWaiting(of program: StartedProgram, inCall call: String) -> Bool {
  children(of: program.id).contains { (text("/proc/\($0)/syscall") ?? "").hasPrefix(call) }
}

/// Any user who can list a directory can hold its inode lock for as long as they like, by a getdents64(2) into a page of their
/// own FUSE mount when that mount's daemon does not reply.
@Suite(.mounting, .asRoot) struct LockedDirectoryTests {
  /// A program that holds the lock of a directory until it is released.
  private final class DirectoryLockHolder {
    private let own: MountedView
    private let daemon: pid_t
    private let program: StartedProgram

    init(of directory: String) throws {
      own = try MountedView("profile=none,passthrough=off") { root in
        try put(String(repeating: "x", count: 4096), at: "\(root)/page")
      }
      daemon = try #require(own.daemon)
      // The page is not read before the daemon has been stopped.
      program = PythonProgram(
        """
        import ctypes, mmap, signal
        page = os.open('\(own.at("page"))', os.O_RDWR)
        memory = mmap.mmap(page, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        directory = os.open('\(directory)', os.O_RDONLY | os.O_DIRECTORY)
        os.kill(\(daemon), signal.SIGSTOP)
        # A thread that runs on another processor would still read the page.
        tasks = "/proc/\(daemon)/task"
        while any(") T " not in open(f"{tasks}/{task}/stat").read() for task in os.listdir(tasks)): time.sleep(0.001)
        ctypes.CDLL(None, use_errno=True).syscall(217, directory, ctypes.c_void_p(address), 4096)
        """
      ).start()
      // In the kernel, waiting for the page.
      try waitUntil { [program] in isChildWaiting(of: program, inCall: "217 ") }
    }

    func release() {
      kill(daemon, SIGCONT)
      program.wait()
    }

    deinit {
      program.send(SIGKILL)
      kill(daemon, SIGCONT)
      program.wait()
    }
  }

  private func view() throws -> MountedView {
    try MountedView { root in
      try put("text", at: "\(root)/Held/report.txt")
      try put("text", at: "\(root)/Free/report.txt")
    }
  }

  /// The first pass may look up entries of directories that are not watched yet, and such entries are not cacheable.
  private func expectNamesAreCached(_ view: MountedView) {
    for _ in 0..<2 { #expect(isThere(view.at("Held/report")) && isThere(view.at("Free/report"))) }
  }

  /// Leaves the kernel with a stale name in the directory, which can only be invalidated under its lock.
  private func makeNameStale(in directory: String, of view: MountedView) throws {
    try put("other", at: view.real("\(directory)/report.pdf"))
  }

  /// Whether a thread of the daemon waits for the lock of a directory.
  private func isNotificationBlocked(in view: MountedView) throws -> Bool {
    let tasks = "/proc/\(try #require(view.daemon))/task"
    return names(tasks).contains { (text("\(tasks)/\($0)/wchan") ?? "").contains("inval_entry") }
  }

  private func isNameInvalidated(in directory: String, of view: MountedView) -> Bool {
    !isThere(view.at("\(directory)/report")) && isThere(view.at("\(directory)/report.pdf"))
  }

  @Test func staleName_whileAnotherDirectoryIsLocked_isInvalidatedWithinASecond() throws {
    let view = try view()
    expectNamesAreCached(view)
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    try makeNameStale(in: "Held", of: view)
    try waitUntil { try isNotificationBlocked(in: view) }
    let start = ContinuousClock.now
    try makeNameStale(in: "Free", of: view)
    try waitUntil { isNameInvalidated(in: "Free", of: view) }
    #expect(ContinuousClock.now - start < .seconds(1))
    holder.release()
    try waitUntil { isNameInvalidated(in: "Held", of: view) }
  }

  @Test func changeThroughMount_whileAnotherDirectoryIsLocked_isVisibleWhenCallReturns() throws {
    let view = try view()
    expectNamesAreCached(view)
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    try makeNameStale(in: "Held", of: view)
    try waitUntil { try isNotificationBlocked(in: view) }
    for _ in 0..<20 {
      #expect(isThere(view.at("Free/report")) && isThere(view.at("Free/report.txt")))
      #expect(rename(view.at("Free/report.txt"), view.at("Free/other.txt")) == 0)
      #expect(!isThere(view.at("Free/report")) && isThere(view.at("Free/other")))
      #expect(rename(view.at("Free/other"), view.at("Free/report")) == 0)
    }
    holder.release()
  }

  @Test func changeMadeTogetherWithOneInLockedDirectory_isReported() throws {
    let view = try view()
    for directory in ["Held", "Free"] { #expect(view.listing(directory) == ["report"]) }
    let watcher = try InotifyWatcher(view.at("Free"))
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    let paths = ["Held", "Free"].map { view.real("\($0)/report.txt") }
    // Before the change loop wakes up.
    for path in paths { unlink(path) }
    #expect(watcher.reportsChanges("delete report"))
    holder.release()
  }

  /// More changes than are replayed one by one.
  @Test func changeAfterManyInLockedDirectory_isReported() throws {
    let view = try view()
    for directory in ["Held", "Free"] { #expect(view.listing(directory) == ["report"]) }
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    for number in 0..<1500 { try put("x", at: view.real("Held/\(number).bin")) }
    let watcher = try InotifyWatcher(view.at("Free"))
    // The change loop reports these after those.
    for number in 0..<5 {
      try put("x", at: view.real("Free/\(number).bin"))
      usleep(20_000)
    }
    #expect(watcher.reportsChanges("create 4.bin"))
    holder.release()
  }

  /// The kernel does not move the dentry of the directory that is gone, as it would have to lock where that was.
  @Test func createdDirectory_withInodeNumberFromLockedDirectory_isVisible() throws {
    let view = try view()
    for name in ["old", "other"] { makeDirectory(view.real("Held/\(name)")) }
    let number = try #require(status(view.at("Held/old"))).st_ino
    #expect(isThere(view.at("Held/other")))
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    #expect(rename(view.real("Held/other"), view.real("Held/old")) == 0)
    var made: [ino_t] = []
    for attempt in 0..<100 where made.last != number {
      try #require(failure { mkdir(view.at("Free/made \(attempt)"), 0o755) } == nil)
      made.append(try #require(status(view.real("Free/made \(attempt)"))).st_ino)
    }
    holder.release()
  }

  @Test func daemon_terminatedWhileDirectoryIsLocked_unmountsAtOnce() throws {
    let view = try view()
    #expect(isThere(view.at("Held/report")))
    let holder = try DirectoryLockHolder(of: view.at("Held"))
    try makeNameStale(in: "Held", of: view)
    try waitUntil { try isNotificationBlocked(in: view) }
    let start = ContinuousClock.now
    kill(try #require(view.daemon), SIGTERM)
    try waitUntil { !Displayfs.isMounted(view.mountPoint) }
    #expect(ContinuousClock.now - start < .seconds(2))
    holder.release()
  }

  /// The backing file system does not reply to a request.
  @Test func daemon_terminatedWhileRequestHangs_unmountsWithinTimeout() throws {
    let view = try view()
    let lower = try MountedView("profile=none,passthrough=off") { root in try put("x", at: "\(root)/file") }
    #expect(mount(lower.mountPoint, view.real("Free"), nil, UInt(MS_BIND), nil) == 0)
    defer { umount2(view.real("Free"), CInt(MNT_DETACH)) }
    let daemon = try #require(lower.daemon)
    kill(daemon, SIGSTOP)
    defer { kill(daemon, SIGCONT) }
    let client = Shell.start("exec stat \(view.at("Free/file"))")
    defer {
      client.send(SIGKILL)
      kill(daemon, SIGCONT)
      client.wait()
    }
    let viewDaemon = try #require(view.daemon)
    try waitUntil { threadsWaiting(in: viewDaemon) > 0 }
    let start = ContinuousClock.now
    kill(viewDaemon, SIGTERM)
    try waitUntil { !Displayfs.isMounted(view.mountPoint) }
    #expect(ContinuousClock.now - start < .seconds(15))
  }
}
