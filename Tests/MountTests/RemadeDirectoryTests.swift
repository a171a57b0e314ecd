import BackingTree
import CLinux
import Dispatch
import Glibc
import SystemPackage
import Testing

/// A directory that is removed in the backing tree and made again under its name, with the same inode number: ext4 reuses them.
@Suite(.mounting, .asRoot, .loopDevices) struct RemadeDirectoryTests {
  /// A view of a file system that has the directory `job`, and no inode free.
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in
      let image = "'\(root).image'"
      let made = Shell.run(
        "truncate -s 16M \(image) && mkfs.ext4 -q -I 256 -N 64 \(image) && mount -o loop \(image) '\(root)'")
      try #require(made.status == 0, "\(made.complaint)")
      try put("old", at: "\(root)/job/old.txt")
      var count = 0
      while mkdir("\(root)/.full \(count)", 0o755) == 0 { count += 1 }
      try #require(errno == ENOSPC && count > 10)
    }
  }

  /// Removes `job` and makes it again with the same inode number and another file. Leaves an inode free.
  private func remake(_ view: MountedView) throws {
    let old = try #require(status(view.real("job")))
    try #require(unlink(view.real("job/old.txt")) == 0)
    // Takes the inode of the file, so that the one of the directory is the only free one.
    try #require(mkdir(view.real(".taken"), 0o755) == 0)
    // The births of both have to differ, and ext4 rounds them to ticks of the kernel.
    usleep(20_000)
    try #require(rmdir(view.real("job")) == 0)
    // The kernel frees the inode a moment after.
    try #require(eventually { mkdir(view.real("job"), 0o755) == 0 })
    try #require(status(view.real("job"))?.st_ino == old.st_ino)
    try #require(rmdir(view.real(".full 0")) == 0)
    try put("new", at: view.real("job/new.txt"))
    try #require(rmdir(view.real(".full 1")) == 0)
  }

  private func holdsNew(_ directory: OpenFile) -> Bool {
    faccessat(directory.descriptor, "new.txt", R_OK, 0) == 0
  }

  @Test(arguments: ["", "profile=none", "coherence=timeout", "passthrough=off"])
  func programInRemovedDirectory_doesNotReachNewOne(options: String) throws {
    let view = try view(options)
    let old = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
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
    let old = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
    try remake(view)
    // Neither call sends a request before the name has been invalidated.
    #expect(try eventually { try holdsNew(OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)) })
    let new = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
    #expect(failure { mkdirat(new.descriptor, "made", 0o755) } == nil)
    #expect(Shell.run("cd '\(view.at("job"))' && cat new.txt && ls && rmdir made").text == "newmade\nnew")
    #expect(view.realListing("job") == ["new.txt"])
    #expect(failure { openat(old.descriptor, "new.txt", O_RDONLY) } != nil)
  }

  /// None of them takes the node of another from it.
  @Test func clientsThatLookForRemadeDirectoryAtOnce_keepIt() throws {
    let view = try view()
    let old = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
    try remake(view)
    let (failures, job) = (Guarded<[Errno]>([]), view.at("job"))
    let clients = DispatchGroup()
    for _ in 0..<8 {
      DispatchQueue.global().async(group: clients) {
        var opened: OpenFile?
        let isFound = eventually {
          opened = try? OpenFile(job, dfs_O_PATH | O_DIRECTORY)
          return opened.map { faccessat($0.descriptor, "new.txt", R_OK, 0) } == 0
        }
        if !isFound { failures.withLock { $0.append(.noSuchFileOrDirectory) } }
        for _ in 0..<200 where opened.map({ faccessat($0.descriptor, "new.txt", R_OK, 0) }) != 0 {
          failures.withLock { $0.append(Errno(rawValue: errno)) }
        }
      }
    }
    clients.wait()
    #expect(failures.withLock { $0 } == [])
    #expect(failure { openat(old.descriptor, "new.txt", O_RDONLY) } != nil)
  }

  /// The birth must never divide a directory that lives on.
  @Test func directoryThatLivesOn_staysReachable() throws {
    let view = try view()
    #expect(rmdir(view.real(".full 0")) == 0)
    #expect(rmdir(view.real(".full 1")) == 0)
    try put("other", at: view.real("other/file.txt"))
    let held = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
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
    #expect(rename(view.at("other"), view.at("job")) == 0)
    #expect(isReachable())
    #expect(chmod(view.real("job"), 0o700) == 0)
    #expect(eventually { status(view.at("job"))?.st_mode == S_IFDIR | 0o700 })
    #expect(isReachable())
  }
}
