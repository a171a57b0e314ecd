import Glibc
import SystemPackage
import Testing

/// A user who may change the backing tree tries to lead the daemon out of it.
@Suite(.mounting) struct EscapeTests {
  /// Files outside of SOURCE. The daemon must neither show nor change them.
  private struct Outside {
    let path: String
    private let before: [String]

    init(beside source: String) throws {
      path = "\(source)-outside"
      for name in ["secret", "sentinel/secret", "Sub/secret"] { try put("OUTSIDE", at: "\(path)/\(name)") }
      for directory in ["", "/Sub", "/sentinel"] { try put("OUTSIDE", at: "\(path)\(directory)/TXT.rtf") }
      before = Self.state(path)
    }

    func expectUntouched(_ location: SourceLocation = #_sourceLocation) {
      #expect(Self.state(path) == before, sourceLocation: location)
    }

    /// Includes the ctime of each entry: it covers attributes too, and no process can set it back.
    private static func state(_ path: String) -> [String] {
      let listed = Shell.run("find '\(path)' -exec stat -c '%n %i %f %u %g %h %s %y %z' {} +")
      return listed.text.split(separator: "\n").map(String.init).sorted()
    }
  }

  /// Delays the daemon between looking at an entry and opening it, where tracing is possible.
  private func slowed(_ view: MountedView) throws -> Tracer? {
    guard Tracer.isPossible else { return nil }
    return try Tracer(of: try #require(view.daemon), at: "openat", "delay_enter=1500")
  }

  /// Repeatedly exchanges entries with symlinks that lead outside. It works on descriptors opened at the start, because paths
  /// would lead it astray itself.
  private func swapper(_ pairs: [[String]], in directory: String, seconds: Double) -> StartedProgram {
    PythonProgram(
      """
      import ctypes
      libc = ctypes.CDLL(None, use_errno=True)
      pairs = [(os.open(place, os.O_DIRECTORY), a.encode(), b.encode()) for place, a, b in \(pairs)]
      end = time.monotonic() + \(seconds)
      while time.monotonic() < end:
        for place, a, b in pairs:
          libc.renameat2(place, a, place, b, 2)
          time.sleep(0.0003)
      """, in: directory
    ).start()
  }

  /// Does what programs do, and follows no symlink itself: one step at a time, each relative to the last.
  private static let client = """
    import random
    deadline = time.monotonic() + SECONDS
    done = 0
    O_NOFOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK

    def look(what):
        if b"OUTSIDE" in what or b"sentinel" in what: print("shown:", what[:80])

    def with_file(directory, name, flags, body):
        file = os.open(name, flags | O_NOFOLLOW, 0o644, dir_fd=directory)
        try: body(file)
        finally: os.close(file)

    def read(file):
        look(os.read(file, 65536))

    def work(directory):
        name = random.choice(["secret", "TXT.rtf", "Sub", "new", "f"])
        step = random.randrange(14)
        if step == 0: look(b" ".join(os.fsencode(entry) for entry in os.listdir(directory)))
        elif step == 1: with_file(directory, name, os.O_RDONLY, read)
        elif step == 2: with_file(directory, "new", os.O_WRONLY | os.O_CREAT, lambda file: os.write(file, b"written"))
        elif step == 3: with_file(directory, name, os.O_WRONLY | os.O_TRUNC, lambda file: os.write(file, b"written"))
        elif step == 4: with_file(directory, name, os.O_RDONLY, lambda file: os.fchmod(file, 0o640))
        elif step == 5: with_file(directory, name, os.O_RDONLY, lambda file: os.setxattr(file, "user.tag", b"x"))
        elif step == 6: os.utime(name, (1, 1), dir_fd=directory, follow_symlinks=False)
        elif step == 7: os.unlink("new", dir_fd=directory)
        elif step == 8: os.mkdir("made", dir_fd=directory)
        elif step == 9: os.rmdir("made", dir_fd=directory)
        elif step == 10: os.rename("new", "secret", src_dir_fd=directory, dst_dir_fd=directory)
        elif step == 11: os.link(name, "new", src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        elif step == 12: look(str(os.stat(name, dir_fd=directory, follow_symlinks=False).st_size == 7 and name == "never").encode())
        elif step == 13: os.chown(name, os.getuid(), os.getgid(), dir_fd=directory, follow_symlinks=False)

    root = os.open(".", os.O_DIRECTORY)
    # Until something was done, where all is slow.
    while time.monotonic() < deadline or done == 0 and time.monotonic() < deadline + 30:
        try:
            place = random.choice(["d", "d", "Pack.rtfd", "Pack.rtfd/Sub", "."])
            if random.random() < 0.1: with_file(root, "Pack", os.O_RDONLY, read)
            directory, opened = root, []
            try:
                for part in place.split("/"):
                    directory = os.open(part, os.O_DIRECTORY | O_NOFOLLOW, dir_fd=directory)
                    opened.append(directory)
                for _ in range(3):
                    work(directory)
                    done += 1
            finally:
                for descriptor in opened: os.close(descriptor)
        except OSError: pass
    print("done" if done > 0 else "nothing done")
    """

  @Test(arguments: ["hidden=deny", "packages=directory", "profile=none,passthrough=off"])
  func entriesExchangedForSymlinks_exposeNothingOutsideSource(options: String) throws {
    let seconds = Self.seconds
    var outside: Outside?
    let view = try MountedView(options) { root in
      let beside = try Outside(beside: root)
      outside = beside
      for name in ["d/secret", "d/TXT.rtf", "f", "Pack.rtfd/TXT.rtf", "Pack.rtfd/Sub/secret", "secret"] {
        try put("inside", at: "\(root)/\(name)")
      }
      for (link, target) in [
        ("d-link", ""), ("f-link", "/secret"), ("Pack-link", ""), ("Pack.rtfd/text-link", "/secret"),
        ("Pack.rtfd/Sub-link", "/Sub"), ("d/link", "/secret"),
      ] {
        #expect(symlink(beside.path + target, "\(root)/\(link)") == 0)
      }
    }
    let tracer = try slowed(view)
    defer { tracer?.stop() }
    let swapping = swapper(
      [
        [".", "d", "d-link"], ["Pack.rtfd", "TXT.rtf", "text-link"], [".", "f", "f-link"],
        ["Pack.rtfd", "Sub", "Sub-link"], [".", "Pack.rtfd", "Pack-link"], ["d", "secret", "link"],
      ], in: view.source, seconds: seconds + 0.3)
    let second = PythonProgram(
      "SECONDS = \(seconds)\n" + Self.client + "\nsys.exit(0 if done > 0 else 1)", in: view.mountPoint
    ).start()
    let first = PythonProgram("SECONDS = \(seconds)\n" + Self.client, in: view.mountPoint).run()
    #expect(first.text == "done", "\(first.errorText)")
    for program in [swapping, second] { #expect(program.wait() == 0) }
    try #require(outside).expectUntouched()
    #expect(Displayfs.isMounted(view.mountPoint) && isThere(view.mountPoint))
  }

  @Test func packageRemoval_duringExchangeOfSymlinks_staysInPackage() throws {
    var outside: Outside?
    let view = try MountedView { root in outside = try Outside(beside: root) }
    let beside = try #require(outside)
    let tracer = try slowed(view)
    defer { tracer?.stop() }
    // The exchanging goes on, relative to the package, while it is removed and wherever it is then.
    let program = """
      import ctypes, shutil
      libc = ctypes.CDLL(None, use_errno=True)
      for round in range(5):
        package = f"\(view.source)/Album{round}.photoslibrary"
        for name in range(20):
          os.makedirs(f"{package}/{name}/deep")
          open(f"{package}/{name}/deep/part", "w").close()
          os.symlink("\(beside.path)/sentinel", f"{package}/link{name}")
        directory = os.open(package, os.O_DIRECTORY)
        child = os.fork()
        if child == 0:
          end = time.monotonic() + 0.2
          while time.monotonic() < end:
            for name in range(20): libc.renameat2(directory, b"%d" % name, directory, b"link%d" % name, 2)
          os._exit(0)
        time.sleep(0.01)
        def remove():
          try: os.unlink(f"\(view.mountPoint)/Album{round}")
          except OSError as error: return error
        first = remove()
        os.close(directory)
        os.waitpid(child, 0)
        # A package that changes while it is looked through may be left as it is.
        if first and remove(): sys.exit(f"{first}, then {remove()}")
      """
    let outcome = PythonProgram(program).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
    beside.expectUntouched()
    #expect(view.listing() == [])
  }

  @Test(arguments: ["language=en", "profile=none"])
  func directoryMovedOutOfSource_disappears(options: String) throws {
    let view = try MountedView(options) { root in try put("inside", at: "\(root)/d/e/file.bin") }
    let outside = "\(view.source)-outside"
    makeDirectory(outside)
    for round in 0..<20 {
      #expect(eventually { text(view.at("d/e/file.bin")) == "inside" })
      #expect(rename(view.real("d/e"), "\(outside)/e") == 0)
      #expect(eventually { !isThere(view.at("d/e")) && !isThere(view.at("d/e/file.bin")) }, "round \(round)")
      #expect(failure { open(view.at("d/e/new"), O_CREAT | O_WRONLY, 0o644) } == .noSuchFileOrDirectory)
      #expect(rename("\(outside)/e", view.real("d/e")) == 0)
    }
    #expect(names("\(view.real("d/e"))") == ["file.bin"])
  }

  /// A descriptor of it was opened before there was a mount.
  @Test func directoryTakingNameOfSource_isNotShownUntilRemount() throws {
    let view = try MountedView { root in try put("first", at: "\(root)/notes.txt") }
    let moved = "\(view.source)-moved"
    #expect(rename(view.source, moved) == 0)
    try put("second", at: view.real("other.txt"))
    #expect(view.listing() == ["notes"])
    try put("new", at: view.at("new"))
    #expect(text("\(moved)/new") == "new")
    #expect(names(view.source) == ["other.txt"])
    _ = Shell.run(["rm", "-rf", moved])
    #expect(view.listing() == [])
    #expect(failure { open(view.at("late"), O_CREAT | O_WRONLY, 0o644) } == .noSuchFileOrDirectory)
    // What was put back is another directory, until it is mounted.
    #expect(names(view.source) == ["other.txt"])
    view.unmount()
    try view.mount()
    #expect(view.listing() == ["other"])
  }

  @Test(arguments: ["language=en", "profile=none"])
  func mountPointInSource_whileParentIsRenamed_isNotEntered(options: String) throws {
    let place = try MountedView(options) { root in try put("x", at: "\(root)/a/inside/beneath.txt") }
    place.unmount()
    let mount = Displayfs.run(["mount", "-o", "\(options),language=en", place.source, place.real("a/inside")])
    try #require(mount.status == 0, "\(mount.complaint)")
    let finder = PythonProgram(
      """
      view = os.open("a/inside", os.O_DIRECTORY)
      end = time.monotonic() + \(Self.seconds)
      renamer = os.fork()
      while renamer == 0 and time.monotonic() < end:
        os.rename("a", "b")
        os.rename("b", "a")
      if renamer == 0: os._exit(0)
      found = 0
      # How often it is found in the right moment is the scheduler's to say.
      while time.monotonic() < end or found <= 5 and time.monotonic() < end + 20:
        for name in "ab":
          try: inside = os.open(name + "/inside", os.O_DIRECTORY, dir_fd=view)
          except OSError: continue
          try:
            names = os.listdir(inside)
            found += 1
            if names not in (["beneath"], ["beneath.txt"]): print("entered:", names)
          except OSError: pass
          finally: os.close(inside)
      print("done" if found > 5 else f"only {found}")
      sys.exit(os.waitpid(renamer, 0)[1])
      """, in: place.source
    ).run()
    #expect(finder.text == "done" && finder.status == 0, "\(finder.complaint)")
    _ = Displayfs.run(["unmount", "-z", place.real("a/inside")])
  }

  /// `DISPLAYFS_ATTACK_SECONDS` makes each attack longer.
  private static var seconds: Double {
    getenv("DISPLAYFS_ATTACK_SECONDS").flatMap { Double(String(cString: $0)) } ?? 0.7
  }
}
