import Glibc
import Testing

/// A mount point is a path, which may lead to another mount by the time that a view is unmounted.
@Suite(.mounting, .asRoot) struct MountIdentityTests {
  private let place: TemporaryDirectory
  private let source: String

  init() throws {
    place = try TemporaryDirectory()
    source = place.path("source")
    try put("text", at: "\(source)/notes.txt")
  }

  /// Mounts a view in the foreground. - Returns: its daemon.
  private func start(at mountPoint: String, _ options: String = "passthrough=on") throws -> StartedProgram {
    let mount = "mount -f -o language=en,\(options)"
    let daemon = Shell.start("exec '\(Displayfs.path)' \(mount) '\(source)' '\(mountPoint)'")
    try waitUntil { isThere("\(mountPoint)/notes") }
    return daemon
  }

  /// A user that owns a directory above the mount point may rename it, and have its name lead elsewhere.
  @Test func signal_afterMountPointWasMovedAway_unmountsViewAlone() throws {
    let other = place.path("other")
    let script = """
      mkdir -p other above/view && mount -t tmpfs none other && touch other/file
      """
    try #require(Shell.run(script, in: place.root).status == 0)
    defer { umount2(other, CInt(MNT_DETACH)) }
    let daemon = try start(at: place.path("above/view"))
    _ = Shell.run("mv above moved && mkdir above && ln -s '\(other)' above/view", in: place.root)
    daemon.send(SIGTERM)
    #expect(daemon.wait() == 0)
    #expect(isThere("\(other)/file"))
    #expect(!Displayfs.isMounted(place.path("moved/view")))
  }

  /// The path is exchanged when the program has checked it, and is about to call mount(2).
  @Test(.tracing) func remount_ofMountPointExchangedMeanwhile_changesViewAlone() throws {
    let script = """
      mkdir -p other above/view && mount -t tmpfs -o ro none other
      ln -s '\(Displayfs.path)' mount.displayfs && ./mount.displayfs source above/view -o ro,language=en
      """
    let other = place.path("other")
    defer {
      for path in [other, place.path("moved/view"), place.path("above/view")] {
        umount2(path, CInt(MNT_DETACH))
      }
    }
    let outcome = Shell.run(script, in: place.root)
    try #require(outcome.status == 0, "\(outcome.complaint)")
    let remount = Shell.start(
      """
      cd '\(place.root)' && exec strace -f -qq -o /dev/null -e trace=mount -e inject=mount:delay_enter=500000000 \
        sh -c 'echo $$ >process; exec ./mount.displayfs source "$PWD/above/view" -o remount,rw'
      """, within: 600)
    var process: pid_t?
    defer {
      if let tracer = process.flatMap(tracer) { kill(tracer, SIGKILL) }
    }
    try waitUntil {
      process = text(place.path("process")).flatMap { pid_t($0.dropLast()) }
      return process.flatMap { text("/proc/\($0)/syscall") }?.hasPrefix("\(Self.mountCall) ") ?? false
    }
    let exchange = "mv above moved && mkdir above && ln -s '\(other)' above/view"
    #expect(Shell.run(exchange, in: place.root).status == 0)
    // Without its tracer the program goes on.
    let tracer = try #require(process.flatMap(tracer))
    kill(tracer, SIGKILL)
    try waitUntil { process.map { !isThere("/proc/\($0)") } ?? false }
    remount.wait()
    #expect(failure { mkdir("\(other)/new", 0o755) } == .readOnlyFileSystem)
    #expect(mkdir(place.path("moved/view/new"), 0o755) == 0)
  }

  /// The number of mount(2), which Swift cannot import.
  private static var mountCall: Int {
    #if arch(x86_64)
      165
    #else
      40
    #endif
  }

  private func tracer(of process: pid_t) -> pid_t? {
    (text("/proc/\(process)/status") ?? "").split(separator: "\n").first { $0.hasPrefix("TracerPid:\t") }
      .flatMap { pid_t($0.dropFirst(11)) }
  }

  @Test func signal_whileSomethingIsMountedOnTop_leavesThat() throws {
    let view = place.path("view")
    mkdir(view, 0o755)
    let daemon = try start(at: view)
    defer { for _ in 0..<2 { umount2(view, CInt(MNT_DETACH)) } }
    try #require(Shell.run("mount -t tmpfs none view && touch view/file", in: place.root).status == 0)
    daemon.send(SIGTERM)
    #expect(daemon.wait() == 0)
    #expect(isThere("\(view)/file"))
  }

  /// The ID and the device number of the mount at a path.
  private func identity(of mountPoint: String) -> [Substring]? {
    (text("/proc/self/mountinfo") ?? "").split(separator: "\n").map { $0.split(separator: " ") }
      .first { $0[4] == mountPoint }.map { [$0[0], $0[2]] }
  }

  /// The kernel gives the ID and the device number of a mount that is gone to the next one.
  @Test func signal_afterViewIsGoneAndAnotherHasItsIdentity_leavesThat() throws {
    // Whatever else is mounted on the machine may get them instead.
    for _ in 0..<50 {
      let gone = try MountedView()
      let identity = try #require(self.identity(of: gone.mountPoint))
      let daemon = try #require(gone.daemon)
      let other: MountedView
      do {
        kill(daemon, SIGSTOP)
        defer { kill(daemon, SIGCONT) }
        #expect(umount2(gone.mountPoint, CInt(MNT_DETACH)) == 0)
        other = try MountedView { root in try put("text", at: "\(root)/notes.txt") }
        kill(daemon, SIGTERM)
      }
      let hasIdentity = self.identity(of: other.mountPoint) == identity
      try waitUntil { !isThere("/proc/\(daemon)") }
      guard hasIdentity else { continue }
      #expect(Displayfs.isMounted(other.mountPoint))
      #expect(text(other.at("notes")) == "text")
      return
    }
    Issue.record("no view got the identity of the one before it")
  }

  /// The daemon serves the file itself, and the kernel writes its pages back when it likes.
  @Test func signal_afterDirectoryAboveWasRenamed_losesNothingThatIsMapped() throws {
    try put("before", at: "\(source)/notes.txt")
    makeDirectory(place.path("above/view"))
    let daemon = try start(at: place.path("above/view"), "passthrough=off")
    // Ends the daemon if the test ends before.
    defer { umount2(place.path("moved/view"), CInt(MNT_DETACH)) }
    #expect(rename(place.path("above"), place.path("moved")) == 0)
    let file = try OpenFile(place.path("moved/view/notes"), O_RDWR)
    let pages = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    try #require(pages != MAP_FAILED)
    defer { munmap(pages, 4096) }
    memcpy(pages, "mapped", 6)
    daemon.send(SIGTERM)
    #expect(daemon.wait() == 0)
    #expect(text("\(source)/notes.txt") == "mapped")
    #expect(!Displayfs.isMounted(place.path("moved/view")))
  }

  /// The path in the table of mounts then leads to nothing by the time that it is used.
  @Test func signal_whileDirectoryAboveIsRenamedAgainAndAgain_unmounts() throws {
    makeDirectory(place.path("above/view"))
    for _ in 0..<10 {
      let daemon = try start(at: place.path("above/view"))
      let renamer = PythonProgram(
        """
        open("runs", "w").close()
        while os.path.exists("runs"):
          os.rename("above", "moved")
          os.rename("moved", "above")
        """, in: place.root
      ).start()
      defer { umount2(place.path("above/view"), CInt(MNT_DETACH)) }
      try waitUntil { isThere(place.path("runs")) }
      daemon.send(SIGTERM)
      #expect(daemon.wait() == 0)
      unlink(place.path("runs"))
      renamer.wait()
      #expect(!Displayfs.isMounted(place.path("above/view")))
    }
  }

  @Test func programThatWatches_afterDirectoryAboveWasRenamed_isNotified() throws {
    makeDirectory(place.path("above/view"))
    let daemon = try start(at: place.path("above/view"))
    defer {
      daemon.send(SIGTERM)
      daemon.wait()
    }
    var above = "above"
    for number in 0..<3 {
      let view = place.path("\(above)/view")
      #expect(names(view).contains("notes"))
      let watcher = try InotifyWatcher(view)
      try put("x", at: "\(source)/new\(number).txt")
      #expect(watcher.reportsChanges("create new\(number)", within: .work), "above is \(above)")
      #expect(rename(place.path(above), place.path("moved\(number)")) == 0)
      above = "moved\(number)"
    }
  }

  /// The kernel lists mounts by their ids.
  @Test func unmount_whereOlderMountWasMovedOnTop_isRefused() throws {
    let script = """
      mkdir older view && mount -t tmpfs none older && '\(Displayfs.path)' mount source view && mount --move older view
      '\(Displayfs.path)' unmount "$PWD/view" && exit 3
      umount view && '\(Displayfs.path)' unmount "$PWD/view"
      """
    let outcome = Shell.run(
      ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && cd '\(place.root)' && { \(script)\n}"])
    #expect(outcome.status == 0, "\(outcome.complaint)")
  }

  @Test func unmountIfDead_detachesDeadViewAlone() throws {
    let view = try MountedView { root in try put("text", at: "\(root)/notes.txt") }
    let daemon = try #require(view.daemon)
    let unmount = ["unmount", "--if-dead", view.mountPoint]
    #expect(Displayfs.run(unmount).status == 0)
    #expect(text(view.at("notes")) == "text")
    kill(daemon, SIGKILL)
    try waitUntil { !isThere(view.at("notes")) }
    #expect(Displayfs.run(unmount).status == 0)
    #expect(!Displayfs.isMounted(view.mountPoint))
    #expect(Displayfs.run(unmount).status == 0)
  }
}
