import Glibc
import Testing

/// Programs that change the backing tree and programs that change the view at the same time, while others look.
///
/// Whenever they pause, the view must be what a fresh look at the backing tree gives. `DISPLAYFS_SOAK_SECONDS` makes it
/// longer (`Mount/soak`).
@Suite(.mounting, .serialized) struct SoakTests {
  private static let directories = ["", "Folder", "Other"]

  @Test(arguments: ["matching=canonical", "matching=caseless"])
  func view_afterChangesOnBothSides_matchesBackingTree(options: String) throws {
    try soak(try view(options), options)
  }

  private func view(_ options: String) throws -> MountedView {
    try MountedView(options) { root in
      for name in Self.directories.dropFirst() { makeDirectory("\(root)/\(name)") }
      makeDirectory("\(root)/Extra.localized/.localized")
    }
  }

  private func soak(_ view: MountedView, _ options: String) throws {
    let script = view.source + "-worker.py"
    try put(Self.worker, at: script)
    let seconds = getenv("DISPLAYFS_SOAK_SECONDS").flatMap { Int(String(cString: $0)) } ?? 4
    let end = ContinuousClock.now + .seconds(seconds)
    var round = 0
    while ContinuousClock.now < end {
      let seed = Int.random(in: 0..<1 << 30)
      let outcome = Shell.run(
        """
        for worker in 0 1 2 3; do
          python3 '\(script)' write '\(view.source)' $((\(seed) + worker)) &
          python3 '\(script)' write '\(view.mountPoint)' $((\(seed) + 4 + worker)) &
        done
        python3 '\(script)' read '\(view.mountPoint)' \(seed) &
        python3 '\(script)' read '\(view.mountPoint)' \(seed) &
        wait
        sleep 0.2
        """)
      #expect(outcome.text == "", "round \(round), seed \(seed)")
      #expect(outcome.errorText == "", "round \(round), seed \(seed)")
      try #require(compare(view, options, "round \(round), seed \(seed)"))
      round += 1
    }
    print("\(round) pauses, in each of which the view was right")
  }

  /// Whether the view is what a fresh look at the backing tree gives.
  private func compare(_ view: MountedView, _ options: String, _ when: String) -> Bool {
    var isRight = true
    for directory in Self.directories {
      let fresh = Displayfs.run(["ls", "-o", options, view.real(directory)])
      let shown = view.listing(directory)
      let entries = entries(of: view, directory, options)
      for name in Self.spellings {
        let real = resolve(name, entries, options)
        let (here, there) = (
          status(view.at("\(directory)/\(name)")), real.flatMap { status(view.real("\(directory)/\($0)")) }
        )
        if (here == nil) != (there == nil) {
          Issue.record(
            "\(when), \(directory): \(name) is \(here == nil ? "not " : "")there, \(real ?? "nothing")")
          isRight = false
        }
      }
      if fresh.status != 0 || shown != fresh.names {
        Issue.record("\(when), \(directory): \(shown.difference(from: fresh.names) ?? fresh.errorText)")
        isRight = false
      }
      for name in shown {
        let path = view.at("\(directory)/\(name)")
        guard let here = status(path) else {
          Issue.record("\(when): \(path) is listed and not there")
          isRight = false
          continue
        }
        guard here.isRegular, let real = attribute("user.displayfs.realpath", of: path) else { continue }
        let there = status(real)
        let sameContents = contents(path) == contents(real)
        if there.map(Facts.init) != Facts(here) || !sameContents {
          Issue.record(
            """
            \(when): \(path) is not as \(real): \(Facts(here)), \(there.map { "\(Facts($0))" } ?? "nothing"), \
            contents are \(sameContents ? "" : "not ")the same
            \(Displayfs.run(["explain", path]).text)
            """)
          isRight = false
        }
      }
    }
    return isRight
  }

  /// The real and display names of all entries, by a fresh look; the latter are nil for hidden entries.
  private func entries(
    of view: MountedView, _ directory: String, _ options: String
  ) -> [(real: String, shown: String?)] {
    Displayfs.run(["ls", "-al", "-o", options, view.real(directory)]).text.split(separator: "\n").map {
      line in
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      return (fields[2], fields[0].hasSuffix("(hidden)") ? nil : fields[1])
    }
  }

  /// The real name that a name leads to, by comparing it with all.
  private func resolve(_ name: String, _ entries: [(real: String, shown: String?)], _ options: String)
    -> String?
  {
    // Swift compares strings by canonical equivalence.
    func isEqual(_ a: String, _ b: String) -> Bool { Array(a.utf8) == Array(b.utf8) }
    let exact = entries.first { entry in
      isEqual(entry.real, name) || entry.shown.map { isEqual($0, name) } ?? false
    }
    if let exact { return exact.real }
    func matches(_ other: String) -> Bool {
      options == "matching=caseless" ? other.lowercased() == name.lowercased() : other == name
    }
    let equal = entries.filter { entry in matches(entry.real) || entry.shown.map(matches) ?? false }
    return equal.count == 1 ? equal[0].real : nil
  }

  /// Names that entries may have or be equal to.
  private static let spellings = [
    "notes", "notes.txt", "NOTES.txt", "Notes.TXT", "NOTES", "letter", "Letter", "LETTER", "letter.rtf",
    "LETTER.RTF",
    "\u{e9}", "e\u{301}", "\u{c9}", "E\u{301}", "\u{e9}.txt", "e\u{301}.txt", "\u{c9}.TXT", ".DOT", "Y",
  ]

  /// What is compared of a file.
  private struct Facts: Equatable {
    let inode: UInt64
    let size: Int
    let mode: UInt32
    let modified: Int

    init(_ status: stat) {
      inode = UInt64(status.st_ino)
      size = Int(status.st_size)
      mode = status.st_mode
      modified = status.st_mtim.tv_nsec
    }
  }

  /// Half a second of random changes, or of looking. Only errors that a race with others explains are passed over.
  private static let worker = #"""
    import errno, os, random, sys, time
    kind, root, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    chance = random.Random(seed)
    names = ["notes.txt", "notes.pdf", "notes", "letter.rtf", "letter", "a.jpg", "a.png", "b.tar.gz", "c.swift",
             ".dot", "x.localized", "y", "NOTES.txt", "Letter", "\u00e9.txt", "e\u0301.txt", "E\u0301"]
    # What any of them may be called. Most are not there most of the time.
    called = names + [name.rsplit(".", 1)[0] for name in names if name.rfind(".") > 0]
    called += [name.swapcase() for name in called] + ["\u00e9", "e\u0301", "\u00c9"]
    expected = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.ESTALE, errno.EPERM,
                errno.EINVAL, errno.EBUSY}
    def path():
        return os.path.join(root, chance.choice(["", "Folder", "Other"]), chance.choice(names))
    def fill(target):
        with open(target, "w") as file: file.write(str(chance.random()) * chance.randrange(3))
    def replace(target):
        fill(target + ".tmp")
        os.replace(target + ".tmp", target)
    def hide(_):
        with open(os.path.join(root, chance.choice(["", "Folder"]), ".hidden"), "w") as file:
            file.write("".join(chance.choice(names) + "\n" for _ in range(chance.randrange(2))))
    changes = [fill, fill, fill, replace, os.unlink, os.unlink, os.mkdir, os.rmdir, hide,
               lambda target: os.rename(target, path()), lambda target: os.rename(target, path()),
               lambda target: os.chmod(target, chance.choice([0o600, 0o644])),
               lambda target: os.link(target, path()), lambda target: os.symlink("nowhere", target)]
    def look(_):
        directory = os.path.join(root, chance.choice(["", "Folder", "Other"]))
        for name in os.listdir(directory) + chance.sample(called, 5):
            try: os.lstat(os.path.join(directory, name))
            except OSError as error:
                if error.errno not in expected: raise
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        target = path()
        try: (look if kind == "read" else chance.choice(changes))(target)
        except OSError as error:
            if error.errno not in expected: print(kind, target, error)
    """#
}
