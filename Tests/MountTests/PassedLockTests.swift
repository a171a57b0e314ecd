import CLinux
import Glibc
import SystemPackage
import Testing

/// Locks that are kept in the backing tree. (`locks=backing`)
@Suite(.mounting) struct PassedLockTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView("locks=backing,\(options)") { root in
      try put("0123456789", at: "\(root)/notes.txt")
      makeDirectory("\(root)/Letter.rtfd")
      try put("{\\rtf1}", at: "\(root)/Letter.rtfd/TXT.rtf")
    }
  }

  /// Runs a program in Python that has the modules for locks. - Returns: what it prints.
  private func python(_ view: MountedView, _ text: String) -> String {
    PythonProgram("import fcntl, signal, struct, threading\n" + text, in: view.mountPoint).run(with: [
      "SOURCE": view.source
    ]).text
  }

  private static let takes = ["fcntl.flock(f, fcntl.LOCK_EX)", "fcntl.lockf(f, fcntl.LOCK_EX)"]

  /// Takes a lock beneath the view until a file `go` is there.
  private func holdBeneath(_ view: MountedView, _ take: String) throws -> StartedProgram {
    let process = PythonProgram(
      """
      import fcntl
      f = open("notes.txt", "r+")
      \(take)
      open("held", "w").close()
      while not os.path.exists("go"): time.sleep(0.01)
      """, in: view.source
    ).start()
    try waitUntil { isThere(view.real("held")) }
    return process
  }

  @Test(arguments: takes) func lock_heldBeneath_isWaitedFor(take: String) throws {
    let view = try view()
    let holder = try holdBeneath(view, take)
    let waiting = PythonProgram(
      "import fcntl\nf = open('notes', 'r+')\n\(take)\nopen('taken', 'w').close()", in: view.mountPoint
    ).start()
    let refused = python(
      view,
      """
      f = open("notes", "r+")
      try: \(take.replacing("LOCK_EX", with: "LOCK_EX | fcntl.LOCK_NB"))
      except OSError as e: print(errno.errorcode[e.errno])
      """)
    #expect(refused == "EAGAIN")
    #expect(!isThere(view.real("taken")))
    try put("", at: view.real("go"))
    #expect(holder.wait() == 0)
    #expect(waiting.wait() == 0)
    #expect(isThere(view.real("taken")))
  }

  /// The kernel's FUSE client waits for a reply, whatever the signal.
  @Test(arguments: takes) func clientThatWaits_whenSignalled_isInterrupted(take: String) throws {
    let view = try view()
    let holder = try holdBeneath(view, take)
    let text = python(
      view,
      """
      def interrupt(*_): raise TimeoutError
      signal.signal(signal.SIGALRM, interrupt)
      f = open("notes", "r+")
      signal.setitimer(signal.ITIMER_REAL, 0.2)
      try: \(take)
      except TimeoutError: print("interrupted")
      """)
    #expect(text == "interrupted")
    try put("", at: view.real("go"))
    holder.wait()
  }

  /// More clients wait than the daemon has workers.
  @Test func clientsThatWait_delayNoRequests() throws {
    let view = try view()
    let holder = try holdBeneath(view, Self.takes[0])
    let waiting = PythonProgram(
      """
      import fcntl, threading
      def wait():
        with open("notes", "r+") as f:
          fcntl.flock(f, fcntl.LOCK_EX)
          with open("order", "a") as order: order.write("x")
      threads = [threading.Thread(target=wait) for _ in range(100)]
      for t in threads: t.start()
      open("started", "w").close()
      for t in threads: t.join()
      """, in: view.mountPoint
    ).start()
    try waitUntil { isThere(view.real("started")) }
    for number in 0..<20 {
      try put("text", at: view.at("file\(number)"))
      #expect(contents(view.at("file\(number)")) == Array("text".utf8))
    }
    #expect(!isThere(view.real("order")))
    try put("", at: view.real("go"))
    #expect(holder.wait() == 0)
    #expect(waiting.wait() == 0)
    #expect(text(view.real("order"))?.count == 100)
  }

  @Test func clientThatWaits_whenDaemonEnds_doesNotWaitOn() throws {
    let view = try view()
    let holder = try holdBeneath(view, Self.takes[0])
    let waiting = PythonProgram(
      "import fcntl\nf = open('notes', 'r+')\nopen('waits', 'w').close()\nfcntl.flock(f, fcntl.LOCK_EX)",
      in: view.mountPoint
    ).start()
    try waitUntil { isThere(view.real("waits")) }
    kill(try #require(view.daemon), SIGTERM)
    #expect(eventually { waiting.hasEnded })
    try put("", at: view.real("go"))
    holder.wait()
  }

  @Test func processThatIsKilled_losesItsLocks() throws {
    let view = try view()
    let process = PythonProgram(
      """
      import fcntl, signal
      f = open("notes", "r+")
      fcntl.lockf(f, fcntl.LOCK_EX)
      g = open("notes", "r+")
      fcntl.flock(g, fcntl.LOCK_EX)
      open("held", "w").write(str(os.getpid()))
      signal.pause()
      """, in: view.mountPoint
    ).start()
    try waitUntil { text(view.real("held")).map { !$0.isEmpty } ?? false }
    let take = """
      try:
        f = open(os.environ["SOURCE"] + "/notes.txt", "r+")
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free")
      except OSError: print("locked")
      """
    #expect(python(view, take) == "locked")
    kill(try #require(text(view.real("held")).flatMap { pid_t($0) }), SIGKILL)
    process.wait()
    #expect(eventually { python(view, take) == "free" })
  }

  /// A process loses its record locks with any descriptor of the file that it closes, and no other process does.
  /// (fcntl(2))
  @Test func recordLocks_endWithAnyCloseOfTheirProcess() throws {
    let view = try view()
    let text = python(
      view,
      """
      def state():
        with open(os.environ["SOURCE"] + "/notes.txt", "r+") as f:
          try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
          except OSError: return "locked"
          return "free"
      ready, go = os.pipe(), os.pipe()
      f = open("notes", "r+")
      fcntl.lockf(f, fcntl.LOCK_EX)
      child = os.fork()
      if child == 0:
        # Closes its own descriptors, and has no lock.
        f.close()
        open("notes").close()
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
      os.read(ready[0], 1)
      print(state())
      open("notes.txt").close()
      print(state())
      os.write(go[1], b"x")
      os.waitpid(child, 0)
      """)
    #expect(text == "locked\nfree")
  }

  /// The file stays open in another process: the lock ends with its process alone.
  @Test func recordLock_ofProcessThatEnds_endsThoughTheFileStaysOpen() throws {
    let view = try view()
    let text = python(
      view,
      """
      f = open("notes", "r+")
      child = os.fork()
      if child == 0:
        fcntl.lockf(f, fcntl.LOCK_EX)
        os._exit(0)
      os.waitpid(child, 0)
      with open(os.environ["SOURCE"] + "/notes.txt", "r+") as g: fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
      print("free")
      """)
    #expect(text == "free")
  }

  @Test func openFileDescriptionLock_outlivesCloseOfAnotherDescriptor() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"), O_RDWR)
    var range = Glibc.flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 2, l_len: 3, l_pid: 0)
    #expect(failure { dfs_ofd_lock(file.descriptor, dfs_F_OFD_SETLK, &range) } == nil)
    _ = try OpenFile(view.at("notes"), O_RDWR)
    let state = """
      with open(os.environ["SOURCE"] + "/notes.txt", "r+") as f:
        try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError: print("locked")
      """
    #expect(python(view, state) == "locked")
    close(dup(file.descriptor))
    #expect(python(view, state) == "locked")
  }

  @Test func conflictingLock_isReportedWithRangeAndProcess() throws {
    let view = try view()
    let process = PythonProgram(
      """
      import fcntl, signal
      f = open("notes.txt", "r+")
      fcntl.lockf(f, fcntl.LOCK_EX, 3, 4)
      open("held", "w").write(str(os.getpid()))
      signal.pause()
      """, in: view.source
    ).start()
    try waitUntil { text(view.real("held")).map { !$0.isEmpty } ?? false }
    let holder = try #require(text(view.real("held")).flatMap { pid_t($0) })
    defer {
      kill(holder, SIGKILL)
      process.wait()
    }
    let file = try OpenFile(view.at("notes"), O_RDWR)
    var range = Glibc.flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0, l_len: 0, l_pid: 0)
    #expect(failure { fcntl(file.descriptor, F_GETLK, &range) } == nil)
    #expect(range.l_type == F_WRLCK && range.l_start == 4 && range.l_len == 3 && range.l_pid == holder)
    // Its own lock is none that conflicts.
    range = Glibc.flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 0, l_len: 2, l_pid: 0)
    #expect(failure { fcntl(file.descriptor, F_SETLK, &range) } == nil)
    #expect(failure { fcntl(file.descriptor, F_GETLK, &range) } == nil)
    #expect(range.l_type == F_UNLCK)
  }

  /// A package is no file in the backing tree. Its locks are those of the mount.
  @Test(arguments: takes) func packageLock_isMetThroughTheView(take: String) throws {
    let view = try view()
    let take = take.replacing("LOCK_EX", with: take.contains("lockf") ? "LOCK_SH" : "LOCK_EX | fcntl.LOCK_NB")
    let text = python(
      view,
      """
      f = open("Letter")
      \(take)
      if os.fork() == 0:
        try:
          # Another open file, and another process.
          g = open("Letter")
          \(take.replacing("(f", with: "(g"))
          print("free", flush=True)
        except OSError as e: print(errno.errorcode[e.errno], flush=True)
        os._exit(0)
      os.wait()
      f.close()
      with open("Letter") as f: \(take)
      print("free")
      """)
    // A file that is open for reading alone has no other record locks.
    #expect(text == (take.contains("lockf") ? "free\nfree" : "EAGAIN\nfree"))
  }

  /// Processes on both sides count in the same file, each number under a lock. The owner of a lock reads what the last one wrote.
  @Test(arguments: ["fcntl.lockf(f, {}, 8, 8 * slot)", "fcntl.flock(f, {})"], ["on", "off"])
  func numbers_countedUnderLocksOnBothSides_areComplete(lock: String, passthrough: String) throws {
    let view = try view("passthrough=\(passthrough)")
    try put(String(repeating: "\0", count: 64), at: view.real("numbers"))
    func call(_ operation: String) -> String { lock.replacing("{}", with: "fcntl.\(operation)") }
    let count = 200
    let processes = [view.source, view.mountPoint, view.source, view.mountPoint].enumerated().map {
      (seed, directory) in
      PythonProgram(
        """
        import fcntl, random, struct
        random.seed(\(seed))
        f = open("numbers", "r+b", buffering=0)
        for _ in range(\(count)):
          slot = random.randrange(8)
          \(call("LOCK_EX"))
          number, = struct.unpack("q", os.pread(f.fileno(), 8, 8 * slot))
          os.pwrite(f.fileno(), struct.pack("q", number + 1), 8 * slot)
          \(call("LOCK_UN"))
        """, in: directory
      ).start()
    }
    for process in processes { #expect(process.wait() == 0) }
    let numbers = try #require(contents(view.real("numbers"))).withUnsafeBytes {
      Array($0.bindMemory(to: Int64.self))
    }
    #expect(numbers.reduce(0, +) == Int64(processes.count * count))
  }

  @Test func status_reportsWhereLocksAreKept() throws {
    for (options, report) in [
      ("locks=backing", "passed to the backing tree"), ("", "kept by the kernel, for this mount"),
    ] {
      let view = try MountedView(options)
      #expect(Displayfs.run(["status", view.mountPoint]).text.contains(report))
    }
  }
}
