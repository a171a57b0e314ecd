import CLinux
import Glibc
import SystemPackage
import Testing

/// Data that the kernel takes from the backing files itself, and what falls back to the daemon: both look alike.
@Suite(.mounting) struct PassthroughTests {
  static let modes = ["passthrough=on", "passthrough=off", "passthrough=on,profile=none"]

  private func view(_ options: String) throws -> MountedView {
    try MountedView(options) { root in try put("0123456789", at: "\(root)/notes.txt") }
  }

  /// A line of `displayfs status`.
  private func reported(_ name: String, of view: MountedView) throws -> String {
    let outcome = Displayfs.run(["status", view.mountPoint])
    try #require(outcome.status == 0, "\(outcome.errorText)")
    let line = try #require(outcome.text.split(separator: "\n").first { $0.hasPrefix("\(name): ") })
    return String(line.dropFirst(name.utf8.count + 2))
  }

  /// Opens a file. - Returns: whether this machine passes its data through.
  private func isOn(_ view: MountedView) throws -> Bool {
    _ = text(view.at("notes.txt"))
    return try reported("passthrough", of: view) == "on"
  }

  @Test func status_reportsPassthroughAndWhyItIsOff() throws {
    let on = try view("")
    let isOn = try isOn(on)
    if isPassthroughExpected { #expect(isOn) }
    if isOn {
      #expect(try reported("opens passed through", of: on) == "1")
      #expect(try reported("opens served by the daemon", of: on) == "0")
    } else {
      #expect(try reported("opens served by the daemon", of: on) == "1")
    }
    let off = try view("passthrough=off")
    _ = text(off.at("notes.txt"))
    #expect(try reported("passthrough", of: off) == "off: switched off by -o passthrough=off")
    #expect(try reported("opens served by the daemon", of: off) == "1")
    #expect(Displayfs.run(["status", off.source]).status != 0)
  }

  /// Linux stacks two file systems at most.
  @Test(.asRoot) func overlayfs_belowOrAboveView_works() throws {
    let plain = try view("")
    let above = try MountedView { root in
      let outcome = Shell.run(
        """
        mkdir '\(root)/../disk' && mount -t tmpfs none '\(root)/../disk' && cd '\(root)/../disk'
        mkdir lower upper work && printf 0123456789 > lower/notes.txt
        mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none '\(root)'
        """)
      try #require(outcome.status == 0, "\(outcome.errorText)")
    }
    #expect(try isOn(above) == isOn(plain))
    #expect(text(above.at("notes")) == "0123456789")

    let top = "\(plain.source)/../top"
    let outcome = Shell.run(
      "mkdir '\(top)' && mount -t overlay -o lowerdir='\(plain.mountPoint):\(plain.source)' none '\(top)'")
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(text("\(top)/notes") == "0123456789")
    _ = Shell.run("umount '\(top)'")
  }

  @Test(.passthrough) func passthroughReadsAndWrites_needNoRequests() throws {
    let view = try view("")
    try #require(try isOn(view))
    let file = try OpenFile(view.at("notes"), O_RDWR)
    for round in 0..<20 {
      #expect(file.write("\(round % 10)", at: round) == 1)
      #expect(file.text(1, at: round) == "\(round % 10)")
    }
    let requests = try reported("requests", of: view)
    #expect(!requests.contains(" read,") && !requests.contains(" write"), "\(requests)")
    #expect(text(view.real("notes.txt")) == "01234567890123456789")
  }

  @Test(arguments: modes) func sizeAndTime_afterEveryKindOfWrite_matchBackingFile(options: String) throws {
    let view = try view(options)
    let name = options.contains("none") ? "notes.txt" : "notes"
    let file = try OpenFile(view.at(name), O_RDWR)
    func agree(_ step: String) throws {
      let real = try #require(status(view.real("notes.txt")))
      for shown in [file.status, try #require(status(view.at(name)))] {
        #expect(shown.st_size == real.st_size, "\(step)")
        #expect(shown.st_blocks == real.st_blocks, "\(step)")
        #expect(shown.st_mtim.tv_sec == real.st_mtim.tv_sec, "\(step)")
        #expect(shown.st_mtim.tv_nsec == real.st_mtim.tv_nsec, "\(step)")
      }
      #expect(contents(view.at(name)) == contents(view.real("notes.txt")), "\(step)")
    }
    // A time of its own, so that whatever is written changes it.
    _ = Shell.run("touch -d @1000000000 '\(view.real("notes.txt"))'")
    #expect(eventually { status(view.at(name))?.st_mtim.tv_sec == 1_000_000_000 })
    try agree("touched in the backing tree")
    #expect(file.write("more", at: 10) == 4)
    try agree("written")
    #expect(file.write("far", at: 1 << 20) == 3)
    try agree("written beyond the end")
    let appending = try OpenFile(view.at(name), O_WRONLY | O_APPEND)
    #expect(appending.write("appended") == 8)
    try agree("appended")
    #expect(truncate(view.at("notes.txt"), 100) == 0)
    try agree("cut by another name")
    #expect(ftruncate(file.descriptor, 5000) == 0)
    try agree("made longer")
    #expect(try OpenFile(view.real("notes.txt"), O_WRONLY | O_APPEND).write("behind") == 6)
    #expect(eventually { status(view.at(name))?.st_size == 5006 })
    try agree("appended behind the mount")
    let cut = try OpenFile(view.at(name), O_WRONLY | O_TRUNC)
    #expect(cut.write("new") == 3)
    try agree("opened with O_TRUNC")
  }

  @Test(arguments: modes) func mappingsReadsAndWrites_areCoherent(options: String) throws {
    let view = try view(options)
    let name = options.contains("none") ? "notes.txt" : "notes"
    let file = try OpenFile(view.at(name), O_RDWR)
    let mapped = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0))
    try #require(mapped != MAP_FAILED)
    let bytes = mapped.assumingMemoryBound(to: UInt8.self)
    bytes[0] = UInt8(ascii: "M")
    #expect(file.text(2) == "M1")
    #expect(file.write("W", at: 1) == 1)
    #expect(bytes[1] == UInt8(ascii: "W"))
    #expect(msync(mapped, 4096, CInt(MS_SYNC)) == 0)
    #expect(text(view.real("notes.txt")) == "MW23456789")
    bytes[2] = UInt8(ascii: "L")
    munmap(mapped, 4096)
    #expect(file.text(10) == "MWL3456789")
    #expect(text(view.at(name)) == "MWL3456789")
    let copy = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.descriptor, 0))
    copy.assumingMemoryBound(to: UInt8.self)[0] = UInt8(ascii: "P")
    #expect(file.text(1) == "M")
    munmap(copy, 4096)
  }

  @Test(arguments: modes) func holes_areKept(options: String) throws {
    let view = try view(options)
    let file = try OpenFile(view.at("sparse.bin"), O_RDWR | O_CREAT)
    #expect(file.write("end", at: 64 << 20) == 3)
    #expect(file.status.st_size == 64 << 20 + 3)
    #expect(file.status.st_blocks * 512 < 1 << 20)
    #expect(file.bytes(4, at: 32 << 20) == [0, 0, 0, 0])
    #expect(lseek(file.descriptor, 0, dfs_SEEK_DATA) == 64 << 20)
  }

  @Test(.directIO, arguments: modes) func directIO_matchesBackingFileSystem(options: String) throws {
    let view = try view(options)
    let direct: CInt = 0o40000
    let content = [UInt8](repeating: 0x41, count: 16384)
    for path in [view.real("real.bin"), view.real("mounted.bin")] { try put(content, at: path) }
    let real = try OpenFile(view.real("real.bin"), O_RDWR | direct)
    let file = try OpenFile(view.at("mounted.bin"), O_RDWR | direct)
    let buffer = UnsafeMutableRawPointer.allocate(byteCount: 4096, alignment: 4096)
    defer { buffer.deallocate() }
    memset(buffer, 0x42, 4096)
    for target in [real, file] {
      #expect(pwrite(target.descriptor, buffer, 4096, 4096) == 4096)
      memset(buffer, 0x42, 4096)
      #expect(pread(target.descriptor, buffer, 4096, 0) == 4096)
      #expect(buffer.load(as: UInt8.self) == 0x41)
      memset(buffer, 0x42, 4096)
    }
    let isSame = contents(view.at("mounted.bin")) == contents(view.real("real.bin"))
    #expect(isSame)
  }

  /// The kernel refuses to open an inode both with and without passthrough, so a second open must follow the first.
  @Test(arguments: modes) func concurrentOpensAndCloses_succeed(options: String) throws {
    let view = try view(options)
    let script = """
      worker() { i=0; while [ $i -lt 60 ]; do
        cat notes.txt >/dev/null && printf x >>log.txt && printf y 1<>notes.txt || echo failed; i=$((i+1)); done; }
      for n in 1 2 3 4 5 6; do worker & done; wait; stat -c %s log.txt
      """
    let outcome = view.shell(script)
    #expect(outcome.text == "360", "\(outcome.errorText)")
    #expect(text(view.real("notes.txt")) == "y123456789")
  }

  @Test(.asRoot, arguments: modes) func setIDBits_afterWriteByAnotherUser_areCleared(options: String) throws {
    let view = try view("allow_other," + options)
    let writer = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all sh -c"
    for (step, prepare, write) in [
      ("written", "chmod 4777 tool", "printf x 1<>tool"),
      ("appended", "chmod 4777 tool", "printf x >>tool"),
      ("emptied", "chmod 4777 tool", ": >tool"),
      ("group", "chmod 2777 tool", "printf x >>tool"),
    ] {
      let outcome = view.shell(
        "printf content >tool; \(prepare); \(writer) '\(write)' || exit 1; stat -c %a tool; stat -c %a $SOURCE/tool"
      )
      #expect(outcome.text == "777\n777", "\(step): \(outcome.errorText)")
    }
    // The bit is set while two processes have the file open. The process that opened it first may keep the bit.
    let outcome = view.shell(
      """
      printf content >late; chmod 777 late; : >flag; chmod 666 flag; exec 3<>late
      \(writer) 'exec 4>>late; echo opened >flag; until grep -q go flag; do sleep 0.05; done; printf x >&4' &
      until grep -q opened flag; do sleep 0.05; done
      chmod 4777 late; echo go >flag; wait $!; stat -c %a $SOURCE/late
      """)
    #expect(outcome.text == "777", "\(outcome.errorText)")
    // Root keeps them, as on the backing file system.
    #expect(view.shell("printf content >own; chmod 4755 own; printf x >>own; stat -c %a own").text == "4755")
  }

  /// chown(2) that names neither user nor group clears them too.
  @Test(.asRoot, arguments: modes) func setIDBits_afterChangeOfNoOwner_areCleared(options: String) throws {
    let outcome = try view(options).shell(
      """
      printf content >tool; chmod 6755 tool
      python3 -c 'import os; os.setgid(65534); os.setuid(65534); os.chown("tool", -1, -1)' || true
      stat -c %a tool
      python3 -c 'import os; os.chown("tool", -1, -1)'
      stat -c %a tool
      """)
    #expect(outcome.text == "6755\n755", "\(outcome.errorText)")
  }

  /// A file is registered without the right to keep these bits. Root has that right again for the next operation.
  @Test(.asRoot) func setIDBits_setByRootAfterOpen_areKept() throws {
    let view = try view("profile=none")
    #expect(
      view.shell(
        """
        printf content >other; printf content >tool; chown 65534:65534 tool
        for round in 1 2 3 4; do
          cat other >/dev/null; chmod 2755 tool; stat -c %a tool
          chmod 4755 tool; cat other >/dev/null; truncate -s 5 tool; stat -c %a tool
          cat other >/dev/null; fallocate -l 8192 tool; stat -c %a tool
        done
        """
      ).text == Array(repeating: "2755\n4755\n4755", count: 4).joined(separator: "\n"))
  }

  /// Repeatedly makes files of the same name, and often of the same inode number, while another process stats them.
  @Test(.asRoot, arguments: modes)
  func setIDBits_whileAnotherUserChangesContent_areCleared(options: String) throws {
    let view = try view("allow_other," + options)
    let program = PythonProgram(
      """
      import ctypes
      libc = ctypes.CDLL(None, use_errno=True)
      libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
      def allocate(file, mode):
        if libc.fallocate(file, mode, 65536, 65536): raise OSError(ctypes.get_errno(), "fallocate")
      changes = [
        lambda file: allocate(file, 3), lambda file: allocate(file, 0),
        lambda file: os.pwrite(file, b"x", 0), lambda file: os.ftruncate(file, 100)]

      def another(body):
        child = os.fork()
        if child == 0:
          try:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
            body()
          except BaseException: os._exit(1)
          os._exit(0)
        return os.waitpid(child, 0)[1] == 0

      looker = os.fork()
      while looker == 0:
        for entry in os.scandir("."):
          try: entry.stat()
          except OSError: pass
      for number in range(500):
        mode = [0o6666, 0o6676, 0o6766, 0o6777][number % 4]
        file = os.open("tool", os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(file, bytes(196608), 0)
        os.close(file)
        os.chmod("tool", mode)
        set = os.stat("tool").st_mode & 0o7777
        if set != mode: print(number, "is", oct(set), "and not", oct(mode))
        if not another(lambda: changes[number // 4 % 4](os.open("tool", os.O_RDWR))): print(number, "failed")
        # The kernel counts what the looker is answered as known before it has written all of it down, the mode last. So once in
        # many thousand rounds a look shows the mode of before; the next one does not.
        for path in ["tool", "\(view.real("tool"))"]:
          left = [os.stat(path).st_mode & 0o7777 for look in range(2)]
          if left[1] != mode & 0o777: print(number, path, "is", [oct(mode) for mode in left])
        os.unlink("tool")
      os.kill(looker, 9)
      print("done")
      """, in: view.mountPoint)
    let outcome = program.run()
    #expect(outcome.text == "done", "\(outcome.complaint)")
  }

  @Test(arguments: modes) func writtenData_afterDaemonIsKilled_isKept(options: String) throws {
    let view = try view(options)
    let file = try OpenFile(view.at("saved.bin"), O_RDWR | O_CREAT)
    #expect(file.write("written") == 7)
    #expect(kill(try #require(view.daemon), SIGKILL) == 0)
    #expect(text(view.real("saved.bin")) == "written")
    // A program that has the file open may continue or get an error, but does not hang.
    _ = file.write("more", at: 7)
    _ = file.text()
  }
}
