import Glibc
import Testing

/// Changes of the backing tree that the kernel reports to the daemon late, in part or not at all.
@Suite(.mounting) struct UnreportedChangeTests {
  /// How many events the kernel queues for one watcher, by either interface.
  private static let queueLength = ["inotify", "fanotify"].compactMap { interface in
    text("/proc/sys/fs/\(interface)/max_queued_events").flatMap { Int($0.split(separator: "\n").first ?? "") }
  }.max() ?? .max

  private static let queueCanBeFilled = ConditionTrait.enabled(
    if: queueLength <= 100_000, "The kernel's queue of events is too long here to be filled.")

  /// Stops the daemon and fills the queue of the events that it has not read. - Returns: the daemon.
  private func stoppedWithFullQueue(_ view: MountedView) throws -> pid_t {
    let daemon = try #require(view.daemon)
    kill(daemon, SIGSTOP)
    // The kernel may merge equal events.
    for number in 0...Self.queueLength / 2 {
      let name = view.real("passing\(number)")
      close(open(name, O_WRONLY | O_CREAT, 0o644))
      unlink(name)
    }
    return daemon
  }

  @Test(queueCanBeFilled) func changesLostToFullEventQueue_areFound() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/gone.txt")
      try put("x", at: "\(root)/Folder/gone.txt")
    }
    #expect(view.listing() == ["gone", "Folder"] && view.listing("Folder") == ["gone"])
    let daemon = try stoppedWithFullQueue(view)
    defer { kill(daemon, SIGCONT) }
    try put("y", at: view.real("new.txt"))
    try put("y", at: view.real("Folder/new.txt"))
    unlink(view.real("gone.txt"))
    unlink(view.real("Folder/gone.txt"))
    kill(daemon, SIGCONT)
    #expect(view.listing() == ["new", "Folder"] && view.listing("Folder") == ["new"])
    #expect(!isThere(view.at("gone")) && text(view.at("Folder/new")) == "y")
    // From here on changes are reported as before.
    try put("z", at: view.real("Folder/later.txt"))
    #expect(view.listing("Folder") == ["new", "later"])
  }

  @Test(queueCanBeFilled, arguments: [("", ".later"), ("profile=none", "later")])
  func absentName_createdDuringFullEventQueue_isFound(options: String, name: String) throws {
    let view = try MountedView(options) { root in try put("x", at: "\(root)/notes.txt") }
    // The first pass may look up entries of directories that are not watched yet, and such entries are not cacheable.
    for _ in 0..<2 { #expect(!isThere(view.at(name))) }
    let daemon = try stoppedWithFullQueue(view)
    defer { kill(daemon, SIGCONT) }
    try put("y", at: view.real(name))
    kill(daemon, SIGCONT)
    #expect(eventually { text(view.at(name)) == "y" })
  }

  /// A view of a tree on another FUSE file system, the mirror, which reports no changes made beneath it.
  private func overMirror(_ options: String) throws -> (mirror: MountedView, view: MountedView) {
    let mirror = try MountedView("profile=none") { root in
      try put("old", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Music/song.mp3")
    }
    return (mirror, try view("language=de,profile=macos,\(options)", of: mirror))
  }

  private func view(_ options: String, of lower: MountedView) throws -> MountedView {
    let view = try MountedView()
    view.unmount()
    let outcome = Displayfs.run(["mount", "-o", options, lower.mountPoint, view.mountPoint])
    try #require(outcome.status == 0, "\(outcome.errorText)")
    return view
  }

  @Test(arguments: ["coherence=auto,timeout=1", "coherence=timeout,timeout=0"])
  func unreportedChanges_appearAfterTimeout(options: String) throws {
    let (mirror, view) = try overMirror(options)
    #expect(view.listing() == ["notes", "Music"])
    #expect(text(view.at("notes")) == "old" && view.listing("Music") == ["song"])
    try put("new and longer", at: mirror.real("notes.txt"))
    try put("x", at: mirror.real("letter.txt"))
    unlink(mirror.real("Music/song.mp3"))
    // A marker names the directory that it is in.
    try put("", at: mirror.real("Music/.localized"))
    #expect(eventually { view.listing() == ["notes", "letter", "Musik"] })
    #expect(eventually { text(view.at("notes")) == "new and longer" })
    #expect(eventually { view.listing("Musik") == [] })
    #expect(rename(mirror.real("letter.txt"), mirror.real("letter.pdf")) == 0)
    #expect(chmod(mirror.real("notes.txt"), 0o600) == 0)
    #expect(eventually { isThere(view.at("letter.pdf")) && !isThere(view.at("letter.txt")) })
    #expect(eventually { status(view.at("notes"))?.permissions == 0o600 })
    unlink(mirror.real("notes.txt"))
    #expect(eventually { view.listing() == ["letter", "Musik"] && !isThere(view.at("notes")) })
    // Changes through the view do not hide changes made beneath it.
    for round in 0..<5 {
      try put("mine", at: view.at("mine\(round)"))
      try put("theirs", at: mirror.real("theirs\(round)"))
      try put("mine", at: view.at("more\(round)"))
      #expect(
        eventually { view.listing().isSuperset(of: [FileName("theirs\(round)"), FileName("more\(round)")]) })
    }
  }

  /// As the client of NFS, the file system in the middle believes for longer than the view that a directory is unchanged.
  @Test func changeBeneathCachingFileSystem_appearsAfterTimeoutOfView() throws {
    let mirror = try MountedView("profile=none") { root in try put("x", at: "\(root)/Folder/notes.txt") }
    let caching = try view("profile=none,timeout=60", of: mirror)
    let view = try view("language=en,timeout=1", of: caching)
    // A directory that has just changed is read again each time.
    for _ in 0..<5 {
      #expect(view.listing("Folder") == ["notes"])
      usleep(1_200_000)
    }
    try put("y", at: mirror.real("Folder/letter.txt"))
    #expect(eventually { view.listing("Folder") == ["notes", "letter"] })
    #expect(text(view.at("Folder/letter")) == "y")
  }

  @Test func status_reportsWhetherViewNotifiesOfChanges() throws {
    for (options, told) in [("", "yes"), ("ro", "no: "), ("profile=none", "no: ")] {
      let view = try MountedView(options)
      #expect(
        Displayfs.run(["status", view.mountPoint]).text.contains("changes told: \(told)"), "\(options)")
    }
  }

  /// In a user namespace of its own a daemon can have a limit that affects no other process.
  @Test(
    .userNamespaces,
    arguments: [["fanotify_groups=0", "inotify_watches=12"], ["fanotify_marks=12", "inotify_watches=0"]])
  func exhaustedWatches_keepViewCorrectAndCoverLatestDirectories(limits: [String]) throws {
    let view = try MountedView { root in
      for number in 0..<40 { try put("x", at: "\(root)/d\(number)/old.txt") }
    }
    view.unmount()
    let script = """
      set -e
      for limit in \(limits.joined(separator: " ")); do
        # Before Linux 5.13 ordinary users have no fanotify.
        file=/proc/sys/user/max_${limit%=*}; test ! -e $file || echo ${limit#*=} >$file
      done
      "$DISPLAYFS" mount -o language=en "$SOURCE" "$VIEW"
      set +e
      for n in $(seq 0 39); do ls "$VIEW/d$n" >/dev/null; done
      for n in $(seq 0 39); do echo y >"$SOURCE/d$n/new.txt"; mv "$SOURCE/d$n/old.txt" "$SOURCE/d$n/moved.txt"; done
      for n in $(seq 0 39); do
        listed=$(ls "$VIEW/d$n" | tr '\\n' ' ')
        [ "$listed" = 'moved new ' ] || echo "d$n lists $listed"
        [ ! -e "$VIEW/d$n/old" ] || echo "d$n still has old"
        [ "$(cat "$VIEW/d$n/new")" = y ] || echo "d$n has another new"
      done
      # The first daemon of the same tree, outside this user namespace, may still be ending.
      daemon=$(grep -l '^displayfs$' /proc/[0-9]*/comm | while read -r file; do
        [ "$(readlink "${file%comm}ns/user")" = "$(readlink /proc/self/ns/user)" ] || continue
        if tr '\\0' ' ' <"${file%comm}cmdline" | grep -qF "$SOURCE"; then echo "$file"; fi; done | head -n 1)
      watched=$(cat "${daemon%comm}"fdinfo/* | sed -n 's/^[a-z]*notify .*ino:\\([0-9a-f]*\\) .*/\\1/p' | sort -u)
      [ "$(echo "$watched" | wc -l)" -gt 1 ] || echo "watched: $watched"
      echo "$watched" | grep -qx "$(printf %x "$(stat -c %i "$SOURCE/d39")")" || echo 'the last directory is not watched'
      ! echo "$watched" | grep -qx "$(printf %x "$(stat -c %i "$SOURCE/d1")")" || echo 'the first directory is watched'
      umount "$VIEW"
      """
    let outcome = Shell.run(
      ["unshare", "-Urm", "/bin/sh", "-c", script],
      with: ["DISPLAYFS": Displayfs.path, "SOURCE": view.source, "VIEW": view.mountPoint])
    #expect(outcome.text == "" && outcome.status == 0, "\(outcome.text) \(outcome.errorText)")
  }

  @Test func unmount_duringNotifications_succeeds() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    for round in 0..<10 {
      if round > 0 { try view.mount() }
      _ = view.listing()
      // More changes than the kernel is notified of before the unmount.
      for number in 0..<200 { try put("", at: view.real("f\(number)")) }
      let outcome = Displayfs.run(["unmount", view.mountPoint])
      #expect(outcome.status == 0, "\(outcome.errorText)")
      #expect(outcome.errorText == "")
      for number in 0..<200 { unlink(view.real("f\(number)")) }
    }
  }
}
