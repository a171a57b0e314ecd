import Glibc
import Testing

/// Programs that change the backing tree and programs that change the view at the same time, while others look.
///
/// Whenever they pause, the view must be what a fresh look at the backing tree gives. `DISPLAYFS_SOAK_SECONDS` makes it
/// longer (`Mount/soak`).
@Suite(.mounting, .serialized) struct SoakTests {
  private static let directories = ["", "Folder", "Other"]

  @Test func view_afterChangesOnBothSides_matchesBackingTree() throws { try soak(try view()) }

  private func view() throws -> MountedView {
    try MountedView { root in
      for name in Self.directories.dropFirst() { makeDirectory("\(root)/\(name)") }
      makeDirectory("\(root)/Extra.localized/.localized")
    }
  }

  private func soak(_ view: MountedView) throws {
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
      try #require(compare(view, "round \(round), seed \(seed)"))
      round += 1
    }
    print("\(round) pauses, in each of which the view was right")
  }

  /// Whether the view is what a fresh look at the backing tree gives.
  private func compare(_ view: MountedView, _ when: String) -> Bool {
    var isRight = true
    for directory in Self.directories {
      let fresh = Displayfs.run(["ls", view.real(directory)])
      let shown = view.listing(directory)
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
             ".dot", "x.localized", "y"]
    # What any of them may be called. Most are not there most of the time.
    called = names + [name.rsplit(".", 1)[0] for name in names if name.rfind(".") > 0]
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
