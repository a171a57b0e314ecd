import Glibc
import Testing

/// Several programs at once, and a daemon that is killed meanwhile.
///
/// Every content is a tag that occurs once. The workers log the tags that they make and those that they remove, and the tags at
/// the end are compared with the logs. `DISPLAYFS_STRESS_SECONDS` and `DISPLAYFS_CRASH_ROUNDS` make it longer.
@Suite(.mounting, .serialized) struct StressTests {
  private static func number(_ variable: String, default standard: Int) -> Int {
    getenv(variable).flatMap { Int(String(cString: $0)) } ?? standard
  }

  private func view() throws -> MountedView {
    try MountedView { root in
      for name in ["shared", "Folder", "worker0", "worker1", "worker2", "worker3"] {
        makeDirectory("\(root)/\(name)")
      }
    }
  }

  @Test func fourProgramsAtOnce_loseNothing() throws {
    let view = try view()
    let seconds = Self.number("DISPLAYFS_STRESS_SECONDS", default: 6)
    let script = view.source + "-worker.py"
    try put(Worker.script, at: script)
    let outcome = Shell.run(
      """
      for worker in 0 1 2 3; do
        python3 '\(script)' share '\(view.mountPoint)' '\(view.source)' $worker \(seconds) $((\(Int.random(in: 0..<1 << 30)) + worker)) &
      done
      wait
      python3 '\(script)' checkShared '\(view.mountPoint)' '\(view.source)'
      """)
    #expect(outcome.text == "")
    #expect(outcome.errorText == "")
    #expect(Displayfs.isMounted(view.mountPoint))
    for directory in ["", "shared", "Folder", "worker0", "worker1", "worker2", "worker3"] {
      let fresh = Displayfs.run(["ls", view.real(directory)])
      #expect(fresh.status == 0)
      #expect(view.listing(directory).difference(from: fresh.names) == nil)
    }
  }

  @Test func killedDaemon_losesNothingThatWasKept() throws {
    let view = try view()
    let script = view.source + "-worker.py"
    try put(Worker.script, at: script)
    for round in 0..<Self.number("DISPLAYFS_CRASH_ROUNDS", default: 6) {
      let seed = Int.random(in: 0..<1 << 30)
      let outcome = Shell.run(
        """
        for worker in 0 1; do
          python3 '\(script)' lose '\(view.mountPoint)' '\(view.source)' $worker 20 $((\(seed) + worker)) &
        done
        sleep 0.\(Int.random(in: 200...700))
        for process in /proc/[0-9]*; do
          if { tr '\\0' ' ' < $process/cmdline; } 2>/dev/null | grep -q 'displayfs .* \(view.mountPoint) *$'; then
            kill -KILL ${process#/proc/}
          fi
        done
        wait
        umount -l '\(view.mountPoint)'
        python3 '\(script)' checkLost '\(view.mountPoint)' '\(view.source)'
        """)
      #expect(outcome.text == "", "round \(round), seed \(seed)")
      #expect(outcome.errorText == "", "round \(round), seed \(seed)")
      #expect(!Displayfs.isMounted(view.mountPoint))
      try view.mount()
      #expect(eventually(within: .work) { !isThere(view.real(".displayfs-staging")) })
      #expect(
        view.listing("worker0").difference(from: Displayfs.run(["ls", view.real("worker0")]).names) == nil)
    }
  }
}

private enum Worker {
  /// What the programs do, in Python: other processes than this one, each with a number of its own.
  static let script = #"""
    import ctypes, errno, os, random, re, shutil, stat, sys, time

    mode, view, source = sys.argv[1:4]
    libc = ctypes.CDLL(None, use_errno=True)
    NOREPLACE, EXCHANGE = 1, 2
    STEMS = ["a", "b", "photo", "v1.2"]
    EXTENSIONS = ["", "", ".txt", ".txt", ".jpg", ".png", ".c", ".rtfd", ".rtfd"]
    TAG = re.compile(rb"<[0-9.]+>")
    # What may become of a name while three others work on it.
    USUAL = {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ENOTEMPTY}
    # Nothing is refused to root.
    if os.geteuid() != 0: USUAL |= {errno.EACCES, errno.EPERM}
    GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO}

    renames, retries = 0, 0

    def rename(old, new, flags=0):
        # The kernel refuses to look up a directory that another program is just moving: ESTALE, until it has been moved.
        global renames, retries
        renames += 1
        for attempt in range(3):
            retries += attempt > 0
            if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) == 0: return
            if ctypes.get_errno() != errno.ESTALE: break
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), old, None, new)

    def tags_below(path):
        """The tags in a file or below a directory of the backing tree."""
        if os.path.islink(path): return []
        if not os.path.isdir(path): return TAG.findall(open(path, "rb").read())
        return [tag for base, _, files in os.walk(path) for name in files for tag in TAG.findall(open(f"{base}/{name}", "rb").read())]

    def log_lines():
        for name in sorted(os.listdir(os.path.dirname(source))):
            if name.startswith("log-"):
                yield from ((name, line.split()) for line in open(f"{os.path.dirname(source)}/{name}", "rb"))

    if mode == "checkShared":
        count = {}
        for _, line in log_lines():
            count[line[1]] = count.get(line[1], 0) + (1 if line[0] == b"+" else -1)
        for tag in tags_below(source):
            count[tag] = count.get(tag, 0) - 1
        wrong = {tag: -n for tag, n in count.items() if n != 0}
        if wrong: print("too often (+) or missing (-):", wrong)
        if sum(1 for _ in log_lines()) < 100: print("the workers have done nothing")
        sys.exit()

    if mode == "checkLost":
        must, may, last = set(), set(), {}
        for log, line in log_lines():
            if line[0] == b"+": must.add(line[1])
            if line[0] == b"~": may.add(line[1])
            last[log] = line
        there = tags_below(source)
        if lost := must - may - set(there): print("lost:", lost)
        if len(set(there)) != len(there): print("twice:", {tag for tag in there if there.count(tag) > 1})
        # What was under way: the one that goes may not go before the other has come.
        for line in last.values():
            if line[0] == b"~" and len(line) == 4 and line[1] not in there and os.path.lexists(line[3]):
                if line[2] in tags_below(os.fsdecode(line[3])): print("gone without what replaces it:", line)
        # The next round judges its own.
        for log in last: open(f"{os.path.dirname(source)}/{log}", "ab").write(b"=\n")
        sys.exit()

    worker, seconds, seed = int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
    random.seed(seed)
    end = time.monotonic() + seconds
    log = os.open(f"{os.path.dirname(source)}/log-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    own = f"{view}/worker{worker}"
    number = 0

    def note(*words): os.write(log, b" ".join(w if isinstance(w, bytes) else os.fsencode(w) for w in words) + b"\n")

    def fresh():
        global number
        number += 1
        return f"{os.getpid()}.{number}"

    def create(path):
        tag = f"<{fresh()}>".encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try: os.write(descriptor, tag)
        finally: os.close(descriptor)
        note("+", tag)

    def some_name(): return random.choice(STEMS) + random.choice(EXTENSIONS)

    def some_path():
        directory = f"{view}/{random.choice(['shared', 'Folder'])}"
        if random.random() < 0.5: return f"{directory}/{some_name()}"
        names = os.listdir(directory)
        return f"{directory}/{random.choice(names or [some_name()])}"

    def share():
        step = random.randrange(10)
        if step < 3: create(some_path())
        elif step < 5: rename(some_path(), some_path(), NOREPLACE)
        elif step == 5: rename(some_path(), some_path(), EXCHANGE)
        elif step == 6:
            path = f"{own}/p{fresh()}"
            os.mkdir(path + ".rtfd")
            create(path + ".rtfd/text")
            rename(path, some_path(), NOREPLACE)
        elif step == 7:
            path = f"{own}/l{fresh()}"
            try: os.link(some_path(), path, follow_symlinks=False)
            except OSError as error:
                if os.path.lexists(path): print("linked and refused:", repr(error), path)
                # A directory has no links, nor has a package.
                if error.errno != errno.EPERM: raise
                return
            # A file that its maker has not yet written holds nothing.
            for tag in written(path): note("+", tag)
            rename(path, some_path(), NOREPLACE)
        elif step == 8:
            path = some_path()
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    is_stream = os.fstat(file.fileno()).st_size >= 512
                    try: content = file.read()
                    except OSError as error:
                        # Of a package that another program is removing no stream is made up.
                        if is_stream and error.errno == errno.EIO: return
                        raise
                if len(content) < 512 and content and not TAG.fullmatch(content): print("nobody wrote", content, path)
        else:
            path = f"{own}/r{fresh()}"
            rename(some_path(), path, NOREPLACE)
            remove(path)

    def written(path):
        while True:
            tags = tags_below(path)
            if tags or os.path.isdir(path): return tags
            time.sleep(0.001)

    def remove(path):
        real = f"{os.path.dirname(path)}/{os.fsdecode(os.getxattr(path, 'user.displayfs.realname'))}"
        for tag in written(real): note("-", tag)
        try:
            # os.path.isdir takes every error for a no.
            if stat.S_ISDIR(os.stat(path).st_mode): shutil.rmtree(path)
            else: os.unlink(path)
        except OSError as error:
            # No other worker knows the name.
            print("not removed:", repr(error), path)
            raise

    def lose():
        names = os.listdir(own)
        step = random.randrange(10)
        if step < 3 or len(names) < 3: create(f"{own}/{some_name()}")
        elif step == 3:
            path = f"{own}/{random.choice(STEMS)}.rtfd"
            os.mkdir(path)
            create(f"{path}/text")
            for number in range(random.randrange(40)): os.close(os.open(f"{path}/{number}", os.O_WRONLY | os.O_CREAT))
        else:
            old, new = random.sample(names, 2)
            backing = f"{source}/worker{worker}"
            reals = [os.fsdecode(os.getxattr(f"{own}/{name}", "user.displayfs.realname")) for name in (old, new)]
            if random.random() < 0.2: old = reals[0]
            going = tags_below(f"{backing}/{reals[1]}")
            staying = tags_below(f"{backing}/{reals[0]}")
            if step == 9:
                for tag in going: note("~", tag)
                os.unlink(f"{own}/{new}")
            elif step == 8:
                rename(f"{own}/{old}", f"{own}/{random.choice(STEMS)}", NOREPLACE)
            else:
                for tag in going: note("~", tag, *([staying[0], f"{backing}/{reals[0]}"] if staying else []))
                rename(f"{own}/{old}", f"{own}/{new}")

    while time.monotonic() < end:
        try:
            share() if mode == "share" else lose()
            if mode == "lose": note("=")
        except OSError as error:
            if mode == "lose" and error.errno in GONE: break
            if mode == "lose": note("=")
            if error.errno not in USUAL: print("unusual:", repr(error), error.filename, error.filename2, "in line", error.__traceback__.tb_next.tb_lineno)
    # None in thousands, as a rule.
    if retries > 1 + renames // 100: print(retries, "of", renames, "renames had to be tried again")
    """# + "\n"
}
