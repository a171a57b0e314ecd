import CLinux
import Glibc
import SystemPackage
import Testing

/// The daemon is killed in the middle of something.
@Suite(.mounting) struct CrashTests {
  private func killDaemon(_ view: MountedView) throws {
    let daemon = try #require(view.daemon)
    #expect(kill(daemon, SIGKILL) == 0)
    try waitUntil { !isThere(view.mountPoint) }
    // Open files keep a dead mount busy, too.
    #expect(Displayfs.run(["unmount", "-z", view.mountPoint]).status == 0)
  }

  @Test func syncedData_afterDaemonIsKilled_isKept() throws {
    let view = try MountedView { root in try put("old", at: "\(root)/notes.txt") }
    let file = try OpenFile(view.at("notes"), O_WRONLY | O_TRUNC)
    #expect(file.write("synced") == 6)
    #expect(fsync(file.descriptor) == 0)
    try killDaemon(view)
    #expect(text(view.real("notes.txt")) == "synced")
    #expect(view.realListing() == ["notes.txt"])
  }

  /// The end may take a while: the daemon's threads have to end before it releases the package that it was removing.
  @Test func stagingHeldByDyingDaemon_isCleanedUpAfterItsEnd() throws {
    var dying: OpenFile?
    let view = try MountedView { root in
      try put("x", at: "\(root)/.displayfs-staging/unpacking-1/part")
      chmod("\(root)/.displayfs-staging", 0o700)
      let held = try OpenFile("\(root)/.displayfs-staging", O_RDONLY | O_DIRECTORY)
      try #require(dfs_flock(held.descriptor, LOCK_SH) == 0)
      dying = held
    }
    #expect(view.shell("echo new >notes.txt; mv -f notes.txt others.txt").status == 0)
    #expect(text(view.real(".displayfs-staging/unpacking-1/part")) == "x")
    withExtendedLifetime(dying) {}
    dying = nil
    #expect(view.realListing() == ["others.txt"])
  }

  /// A package that was exchanged for its stream, or something else that had got the stream's name; a stream that was written to
  /// after the import; what an earlier version left, whatever it was.
  @Test func entriesThatMayBeOnlyCopies_areKeptByNextMount() throws {
    let kept = ["reverted-1/part", "stream-1-2-3-4-5/part", "stream-1-2-3-4-6", "1234/part", "5678"]
    let view = try MountedView { root in
      for name in kept + ["unpacking-1/part"] {
        try put("only copy", at: "\(root)/.displayfs-staging/\(name)")
      }
      chmod("\(root)/.displayfs-staging", 0o700)
    }
    try waitUntil { !isThere(view.real(".displayfs-staging/unpacking-1")) }
    view.unmount()
    for name in kept { #expect(text(view.real(".displayfs-staging/\(name)")) == "only copy", "\(name)") }
  }

  /// What a daemon leaves that is killed between the move of a stream to staging and the record of the stream's change time.
  ///
  /// - Parameter isWritten: whether a program writes to the stream after that, and puts the modification time back.
  @Test(arguments: [false, true])
  func streamWithoutChangeTime_isDeletedUnlessWrittenSince(isWritten: Bool) throws {
    var staged = ""
    let view = try MountedView { root in
      try put("text of the package", at: "\(root)/stream")
      try put("x", at: "\(root)/.displayfs-staging/unpacking-1/part")
      chmod("\(root)/.displayfs-staging", 0o700)
      let before = try #require(status("\(root)/stream"))
      let time = before.st_mtim
      staged = "stream-\(before.st_ino)-\(before.st_size)-\(time.tv_sec)-\(time.tv_nsec)-1"
      try put("1\0", at: "\(root)/.displayfs-staging/\(staged)-record")
      let path = "\(root)/.displayfs-staging/\(staged)"
      try #require(rename("\(root)/stream", path) == 0)
      guard isWritten else { return }
      let moved = try #require(status(path)).st_ctim
      let file = try OpenFile(path, O_WRONLY)
      // Later than any rounding of the time of the move, also where the clock is set back meanwhile.
      repeat {
        usleep(100_000)
        file.write("TEXT", at: 0)
        #expect(futimens(file.descriptor, [time, time]) == 0)
      } while file.status.st_ctim.tv_sec <= moved.tv_sec
    }
    try waitUntil { !isThere(view.real(".displayfs-staging/unpacking-1")) }
    view.unmount()
    try waitUntil { view.daemon == nil }
    #expect(text(view.real(".displayfs-staging/\(staged)")) == (isWritten ? "TEXT of the package" : nil))
    #expect(isThere(view.real(".displayfs-staging")) == isWritten)
  }

  @Test(arguments: [0, 2_000, 5_000, 10_000, 20_000, 50_000] as [UInt32])
  func killedRemoval_isFinishedByNextMountOrNotBegun(delay: UInt32) throws {
    let view = try MountedView { root in
      _ = Shell.run(
        "mkdir -p A.photoslibrary/1 A.photoslibrary/2; cd A.photoslibrary; seq 2000 | xargs -I_ touch 1/_ 2/_",
        in: root)
      try put("x", at: "\(root)/notes.txt")
    }
    let removal = Shell.start("rm -f '\(view.at("A"))'")
    usleep(delay)
    try killDaemon(view)
    removal.wait()
    let package = view.real("A.photoslibrary")
    if isThere(package) {
      #expect(names(package + "/1").count == 2000 && names(package + "/2").count == 2000)
      return
    }
    try view.mount()
    #expect(view.listing() == ["notes"])
    #expect(eventually(within: .work) { view.realListing() == ["notes.txt"] })
  }

  @Test func killedRenames_leaveOldOrNewFile() throws {
    let view = try MountedView { root in
      for number in 0..<50 {
        try put("new\(number)", at: "\(root)/draft\(number)")
        try put("old\(number)", at: "\(root)/notes\(number).txt")
      }
    }
    let saves = Shell.start("cd '\(view.mountPoint)'; for n in $(seq 0 49); do mv -f draft$n notes$n; done")
    usleep(60_000)
    try killDaemon(view)
    saves.wait()
    for number in 0..<50 {
      let saved = text(view.real("notes\(number).txt"))
      #expect(saved == "old\(number)" || saved == "new\(number)")
      #expect((saved == "old\(number)") == isThere(view.real("draft\(number)")))
    }
    #expect(
      view.realListing().allSatisfy { $0.description.hasPrefix("draft") || $0.description.hasSuffix(".txt") })
  }
}
