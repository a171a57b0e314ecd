import Glibc
import SystemPackage
import Testing

/// A mount that an ordinary user has made, through fusermount3.
@Suite(.mounting, .asRoot, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
struct UserMountTests {
  private func view(build: (String) throws -> Void = { _ in }) throws -> MountedView {
    let view = try MountedView(build: build)
    view.unmount()
    let outcome = OrdinaryUser.mount(view)
    try #require(outcome.status == 0, "\(outcome.complaint)")
    return view
  }

  private func shell(_ user: String, _ view: MountedView, _ script: String) -> Outcome {
    OrdinaryUser.shell(user, view, script)
  }

  /// fusermount3 unmounts by a path.
  @Test func signal_afterDirectoryAboveWasRenamed_unmounts() throws {
    let place = try TemporaryDirectory()
    try put("text", at: place.path("source/notes.txt"))
    makeDirectory(place.path("above/view"))
    try #require(Shell.run("chown -R \(OrdinaryUser.owner) source above", in: place.root).status == 0)
    let user = "setpriv --reuid=\(OrdinaryUser.owner) --regid=\(OrdinaryUser.owner) --clear-groups"
    let daemon = Shell.start(
      """
      exec \(user) '\(Displayfs.path)' mount -f -o language=en '\(place.path("source"))' '\(place.path("above/view"))'
      """)
    defer {
      for name in ["above", "moved"] { umount2(place.path("\(name)/view"), CInt(MNT_DETACH)) }
      daemon.wait()
    }
    try waitUntil {
      OrdinaryUser.run(OrdinaryUser.owner, ["test", "-e", place.path("above/view/notes")]).status == 0
    }
    #expect(rename(place.path("above"), place.path("moved")) == 0)
    daemon.send(SIGTERM)
    #expect(daemon.wait() == 0)
    #expect(!Displayfs.isMounted(place.path("moved/view")))
  }

  @Test func userMount_grantsAccessOfBackingTree() throws {
    let view = try view { root in
      try put("for all", at: "\(root)/public.txt")
      try put("secret", at: "\(root)/private.txt")
      chmod("\(root)/private.txt", 0o600)
      try put("secret", at: "\(root)/closed/file")
      chmod("\(root)/closed", 0o700)
      try put("secret", at: "\(root)/Album.rtfd/part")
      chmod("\(root)/Album.rtfd/part", 0o600)
    }
    #expect(shell(OrdinaryUser.owner, view, "cat public").text == "for all")
    for script in [
      "cat private", "cat private.txt", "ls closed", "cat closed/file", "cat Album", "cat Album.rtfd/part",
      "echo x >public", "chmod 777 private", "chown \(OrdinaryUser.owner) private", "mknod device c 1 3",
    ] {
      let outcome = shell(OrdinaryUser.owner, view, script)
      #expect(outcome.status != 0 && !outcome.text.contains("secret"), "\(script)")
    }
    let made = shell(
      OrdinaryUser.owner, view, "umask 027; echo new >report.pdf; mkdir made; mv report made/paper; ls made")
    #expect(made.text == "paper", "\(made.complaint)")
    let paper = try #require(status(view.real("made/paper.pdf")))
    #expect(paper.st_uid == status(view.source)?.st_uid && paper.permissions == 0o640)
  }

  /// A package of read-only directories: its owner has to make them writable to move it, root has not.
  private func viewOfReadOnlyPackage() throws -> MountedView {
    try view { root in
      try put("text", at: "\(root)/Letter.rtfd/box/TXT.rtf")
      _ = Shell.run("chown -R \(OrdinaryUser.owner): Letter.rtfd; chmod -R a-w Letter.rtfd", in: root)
    }
  }

  @Test(arguments: ["Copy", "Copy.rtfd"]) func readOnlyPackage_isImported(name: String) throws {
    let view = try viewOfReadOnlyPackage()
    let outcome = shell(OrdinaryUser.owner, view, "cp Letter \(name)")
    #expect(outcome.status == 0, "\(outcome.complaint)")
    PackageTree.expectSame(view.real("Letter.rtfd"), view.real("Copy.rtfd"))
    #expect(status(view.real("Copy.rtfd"))?.permissions == 0o555)
    #expect(view.realListing() == ["Letter.rtfd", "Copy.rtfd"] && view.leftovers.isEmpty)
  }

  @Test(arguments: ["Copy", "Copy.rtfd"]) func readOnlyPackage_writtenOn_becomesFileAgain(name: String) throws
  {
    let view = try viewOfReadOnlyPackage()
    let outcome = shell(
      OrdinaryUser.owner, view, "{ cat Letter; test -d Copy.rtfd || exit; echo more; } >\(name)")
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(eventually(within: .work) { status(view.real(name))?.isRegular == true })
    #expect(text(view.real(name))?.hasSuffix("more\n") == true)
    #expect(view.realListing() == ["Letter.rtfd", FileName(name)] && view.leftovers.isEmpty)
  }

  @Test func leftoverOfReadOnlyPackage_isDeletedByNextMount() throws {
    let view = try viewOfReadOnlyPackage()
    view.unmount()
    let staging = view.real(".displayfs-staging")
    _ = Shell.run(
      "mkdir -m 700 '\(staging)' && mv Letter.rtfd '\(staging)/unpacking-1' && chown \(OrdinaryUser.owner) '\(staging)'",
      in: view.source)
    #expect(OrdinaryUser.mount(view).status == 0)
    #expect(view.leftovers.isEmpty)
  }

  @Test func directory_readableButNotSearchable_isListedAsInBackingTree() throws {
    let view = try view { root in
      for name in ["closed/notes.txt", "closed/Letter.rtfd/TXT.rtf"] { try put("x", at: "\(root)/\(name)") }
      _ = Shell.run("chown \(OrdinaryUser.owner) closed && chmod 400 closed", in: root)
    }
    let list = "import os; print(sorted(os.listdir('closed')))"
    #expect(
      shell(OrdinaryUser.owner, view, "cd '\(view.source)' && python3 -c \"\(list)\"").text
        == "['Letter.rtfd', 'notes.txt']")
    let shown = shell(OrdinaryUser.owner, view, "python3 -c \"\(list)\"")
    #expect(shown.text.contains("Letter") && shown.text.contains("notes"), "\(shown.complaint)")
    #expect(
      shell(OrdinaryUser.owner, view, "cat closed/notes || cat closed/notes.txt || stat closed/notes").status
        != 0)
  }

  @Test func userMount_isClosedToOtherUsers() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    #expect(shell(OrdinaryUser.owner, view, "cat notes").text == "x")
    // The mount is closed to root, too.
    #expect(failure { open(view.at("notes"), O_RDONLY) } == .permissionDenied)
    #expect(shell(OrdinaryUser.other, view, "ls").status != 0)
    #expect(OrdinaryUser.run(OrdinaryUser.other, [Displayfs.path, "unmount", view.mountPoint]).status != 0)
    #expect(Displayfs.isMounted(view.mountPoint))
    let options = (text("/proc/self/mountinfo") ?? "").split(separator: "\n").first {
      $0.contains(view.mountPoint)
    }
    #expect(options?.contains("nosuid") == true && options?.contains("nodev") == true, "\(options ?? "")")
    let unmounted = OrdinaryUser.run(OrdinaryUser.owner, [Displayfs.path, "unmount", view.mountPoint])
    #expect(unmounted.status == 0, "\(unmounted.complaint)")
    #expect(!Displayfs.isMounted(view.mountPoint))
  }

  @Test func unresponsiveUserMount_isUnmountedByForce() throws {
    let view = try view()
    let daemon = try #require(view.daemon)
    kill(daemon, SIGSTOP)
    defer { kill(daemon, SIGKILL) }
    let outcome = OrdinaryUser.run(
      OrdinaryUser.owner, [Displayfs.path, "unmount", "--force", view.mountPoint])
    #expect(outcome.status == 0, "\(outcome.complaint)")
    #expect(!Displayfs.isMounted(view.mountPoint))
  }

  /// In a mount namespace without fusectl, which only root can look into all the same.
  @Test func daemon_withoutFusectl_runsWithoutGuardian() throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    view.unmount()
    let outcome = OrdinaryUser.mount(
      view, in: ["unshare", "-m", "sh", "-c", "umount -q /sys/fs/fuse/connections; exec \"$@\"", "sh"])
    try #require(outcome.status == 0, "\(outcome.complaint)")
    let daemon = try #require(view.daemon)
    #expect(children(of: daemon).isEmpty)
    kill(daemon, SIGTERM)
    #expect(eventually(within: .work) { !isThere("/proc/\(daemon)") })
  }

  /// A user that may have no more processes is not shown that a daemon does not respond, nor that a program is missing.
  @Test(arguments: [("list", 0), ("doctor", 2), ("unmount", 2), ("mount", 2)])
  func command_withoutFurtherProcess_reportsThat(command: String, status: CInt) throws {
    let view = try view()
    let arguments: [String] =
      switch command {
      case "unmount": [view.mountPoint]
      case "mount": [view.source, view.mountPoint]
      default: []
      }
    let outcome = OrdinaryUser.run(
      OrdinaryUser.owner, ["prlimit", "--nproc=1", Displayfs.path, command] + arguments)
    #expect(outcome.status == status)
    let text = outcome.text + outcome.errorText
    #expect(text.contains("pids.max"), "\(text)")
    #expect(!text.contains("does not respond") && !text.contains("fusermount3 is missing"), "\(text)")
  }

  /// fanotify reports a change of a directory's attributes to an ordinary user if the directory is watched.
  @Test func attributesOfDirectory_writtenLater_takeEffect() throws {
    let view = try view(build: FinderMetadataTests.makeDirectories)
    #expect(shell(OrdinaryUser.owner, view, "ls -lR").status == 0)
    FinderMetadataTests.changeDirectories(in: view.source)
    let shown = shell(OrdinaryUser.owner, view, "ls; test -f bundle")
    #expect(shown.status == 0 && shown.text == "bundle\nplain", "\(shown.complaint)")
  }

  /// A query needs no further process.
  @Test func query_withoutFurtherProcess_isAnswered() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    let outcome = OrdinaryUser.run(
      OrdinaryUser.owner, ["prlimit", "--nproc=1", Displayfs.path, "realpath", view.at("notes")])
    #expect(outcome.text == "\(view.source)/notes.txt", "\(outcome.complaint)")
  }

  /// Whatever the number of threads that the user may have: the mount works, or the command says why not.
  @Test(arguments: [2, 4, 6, 9, 12]) func mount_withFewThreads_succeedsOrReportsError(limit: Int) throws {
    let view = try MountedView { root in try put("x", at: "\(root)/notes.txt") }
    view.unmount()
    let outcome = OrdinaryUser.mount(view, limit: ["prlimit", "--nproc=\(limit)"])
    if outcome.status == 0 {
      #expect(shell(OrdinaryUser.owner, view, "cat notes").text == "x")
    } else {
      #expect(!outcome.errorText.isEmpty)
      #expect(!Displayfs.isMounted(view.mountPoint), "\(outcome.complaint)")
    }
  }
}
