import BackingTree
import CLinux
import Dispatch
import Glibc
import SystemPackage
import Testing

/// A directory that is removed in the backing tree and made again under its name, with the same inode number: ext4 reuses them.
@Suite(.mounting, .asRoot, .loopDevices) struct RemadeDirectoryTests {
  /// A view of a file system that has a directory, and no inode free.
  private func view(_ options: String = "", _ directory: String = "job") throws -> MountedView {
    try MountedView(options) { root in
      let image = "'\(root).image'"
      let made = Shell.run(
        "truncate -s 16M \(image) && mkfs.ext4 -q -I 256 -N 64 \(image) && mount -o loop \(image) '\(root)'")
      try #require(made.status == 0, "\(made.complaint)")
      try put("old", at: "\(root)/\(directory)/old.txt")
      var count = 0
      while mkdir("\(root)/.full \(count)", 0o755) == 0 { count += 1 }
      try #require(errno == ENOSPC && count > 10)
    }
  }

  /// Removes a directory and makes it again with the same inode number and another file. Leaves an inode free.
  private func remake(_ view: MountedView, _ directory: String = "job") throws {
    let path = view.real(directory)
    let old = try #require(status(path))
    try #require(unlink("\(path)/old.txt") == 0)
    // Takes the inode of the file, so that the one of the directory is the only free one. An inode is free a moment after its
    // file was removed.
    try waitUntil { mkdir(view.real(".taken"), 0o755) == 0 }
    // The births of both have to differ, and ext4 rounds them to ticks of the kernel.
    usleep(20_000)
    try #require(rmdir(path) == 0)
    try waitUntil { mkdir(path, 0o755) == 0 }
    try #require(status(path)?.st_ino == old.st_ino)
    try #require(rmdir(view.real(".full 0")) == 0)
    try waitUntil { (try? put("new", at: "\(path)/new.txt")) != nil }
    try #require(rmdir(view.real(".full 1")) == 0)
  }

  private func open(_ view: MountedView, _ name: String = "job") throws -> OpenFile {
    try OpenFile(view.at(name), dfs_O_PATH | O_DIRECTORY)
  }

  private func holdsNew(_ directory: OpenFile) -> Bool {
    faccessat(directory.descriptor, "new.txt", R_OK, 0) == 0
  }

  @Test(arguments: ["", "profile=none", "coherence=timeout", "passthrough=off"])
  func programInRemovedDirectory_doesNotReachNewOne(options: String) throws {
    let view = try view(options)
    let old = try open(view)
    try remake(view)
    for isSeen in [false, true] {
      // Whether a client has seen the new directory.
      if isSeen { #expect(text(view.at("job/new.txt")) == "new") }
      let refusals = [
        failure { openat(old.descriptor, "new.txt", O_RDONLY) },
        failure { openat(old.descriptor, "new.txt", O_WRONLY | O_TRUNC) },
        failure { openat(old.descriptor, "made.txt", O_WRONLY | O_CREAT, 0o644) },
        failure { mkdirat(old.descriptor, "made", 0o755) },
        failure { unlinkat(old.descriptor, "new.txt", 0) },
        failure { fchmodat(AT_FDCWD, "/proc/self/fd/\(old.descriptor)", 0o700, 0) },
      ]
      for refusal in refusals {
        #expect(refusal == .staleNFSFileHandle || refusal == .noSuchFileOrDirectory, "\(refusals)")
      }
    }
    #expect(view.realListing("job") == ["new.txt"])
    #expect(text(view.at("job/new.txt")) == "new")
    #expect(status(view.real("job"))?.st_mode == S_IFDIR | 0o755)
  }

  @Test func remadeDirectory_isEnteredByPathWhileTheRemovedOneIsHeld() throws {
    let view = try view()
    let old = try open(view)
    try remake(view)
    // An open of the path sends no request before the name has been invalidated.
    #expect(try eventually { try holdsNew(open(view)) })
    let new = try open(view)
    #expect(failure { mkdirat(new.descriptor, "made", 0o755) } == nil)
    #expect(Shell.run("cd '\(view.at("job"))' && cat new.txt && ls && rmdir made").text == "newmade\nnew")
    #expect(view.realListing("job") == ["new.txt"])
    #expect(!holdsNew(old))
  }

  /// Nothing but the directory's view knows the display name to be stale.
  @Test(arguments: [false, true]) func displayNameOfRemadeDirectory_leadsToIt(isSeenByRealName: Bool) throws {
    let view = try view("packages=directory", "job.rtfd")
    #expect(view.listing().contains("job"))
    let old = try open(view, "job")
    try remake(view, "job.rtfd")
    if isSeenByRealName { #expect(text(view.at("job.rtfd/new.txt")) == "new") }
    #expect(try eventually { try holdsNew(open(view, "job")) })
    #expect(!holdsNew(old))
  }

  @Test func remadeDirectory_isReportedAsRemovedAndMade() throws {
    let view = try view()
    #expect(view.listing().contains("job"))
    #expect(status(view.at("job")) != nil)
    let watcher = try InotifyWatcher(view.mountPoint)
    try remake(view)
    #expect(watcher.reportsChanges("delete job", "create job"), "\(watcher.reportedEvents)")
    #expect(text(view.at("job/new.txt")) == "new")
  }

  /// With a timeout, the kernel still has the removed directory's dentry, and renames that.
  @Test(arguments: ["", "coherence=timeout"]) func remadeDirectory_isRenamedThroughView(options: String)
    throws
  {
    let view = try view(options)
    let old = try open(view)
    try remake(view)
    #expect(failure { rename(view.at("job"), view.at("renamed")) } == nil)
    #expect(holdsNew(try open(view, "renamed")))
    #expect(view.realListing("renamed") == ["new.txt"])
    #expect(!holdsNew(old))
  }

  /// None of them takes the node of another from it.
  @Test func clientsThatLookForRemadeDirectoryAtOnce_keepIt() throws {
    let view = try view()
    let old = try open(view)
    let (failures, isRemade, job) = (Guarded<[Errno]>([]), Guarded(false), view.at("job"))
    let clients = DispatchGroup()
    for _ in 0..<8 {
      DispatchQueue.global().async(group: clients) {
        // A client that looked into the removed directory would keep its inode from being reused.
        while !isRemade.withLock({ $0 }) { _ = try? OpenFile(job, dfs_O_PATH | O_DIRECTORY) }
        var opened: OpenFile?
        func isFound() -> Bool {
          opened.map { faccessat($0.descriptor, "new.txt", R_OK, 0) } == 0
        }
        let isReached = eventually {
          opened = try? OpenFile(job, dfs_O_PATH | O_DIRECTORY)
          return isFound()
        }
        if !isReached { failures.withLock { $0.append(.noSuchFileOrDirectory) } }
        for _ in 0..<200 where !isFound() { failures.withLock { $0.append(Errno(rawValue: errno)) } }
      }
    }
    let outcome = Result { try remake(view) }
    isRemade.withLock { $0 = true }
    clients.wait()
    try outcome.get()
    #expect(failures.withLock { $0 } == [])
    #expect(!holdsNew(old))
  }

  /// The birth must never divide a directory that lives on.
  @Test func directoryThatLivesOn_staysReachable() throws {
    let view = try view()
    #expect(rmdir(view.real(".full 0")) == 0)
    #expect(rmdir(view.real(".full 1")) == 0)
    try waitUntil { (try? put("other", at: view.real("other/file.txt"))) != nil }
    let held = try open(view)
    func isReachable() -> Bool { faccessat(held.descriptor, "old.txt", R_OK, 0) == 0 }
    #expect(isReachable())
    #expect(rename(view.real("job"), view.real("moved")) == 0)
    #expect(eventually { isReachable() })
    #expect(text(view.at("moved/old.txt")) == "old")
    #expect(isReachable())
    #expect(
      dfs_renameat(AT_FDCWD, view.real("moved"), AT_FDCWD, view.real("other"), dfs_RENAME_EXCHANGE) == 0)
    #expect(eventually { text(view.at("other/old.txt")) == "old" })
    #expect(isReachable())
    #expect(rename(view.real("other"), view.real("moved/inside")) == 0)
    #expect(eventually { text(view.at("moved/inside/old.txt")) == "old" })
    #expect(isReachable())
    #expect(rename(view.at("moved/inside"), view.at("job")) == 0)
    #expect(isReachable())
    #expect(chmod(view.real("job"), 0o700) == 0)
    #expect(eventually { status(view.at("job"))?.st_mode == S_IFDIR | 0o700 })
    #expect(isReachable())
  }
}
