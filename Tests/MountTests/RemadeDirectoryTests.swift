import CLinux
import Glibc
import SystemPackage
import Testing

/// A directory that is removed in the backing tree and made again under its name, with the same inode number: ext4 reuses them.
@Suite(.mounting, .asRoot, .loopDevices) struct RemadeDirectoryTests {
  /// A file system with `job`, of which no inode is free.
  private func view(_ options: String = "") throws -> MountedView {
    let view = try MountedView(options) { root in
      let made = Shell.run(
        "truncate -s 16M '\(root).image' && mkfs.ext4 -q -N 64 '\(root).image' && mount -o loop '\(root).image' '\(root)'"
      )
      try #require(made.status == 0, "\(made.complaint)")
      try put("old", at: "\(root)/job/old.txt")
      var count = 0
      while mkdir("\(root)/.full \(count)", 0o755) == 0 { count += 1 }
      #expect(errno == ENOSPC && count > 10)
    }
    return view
  }

  /// - Returns: whether it has the same number.
  private func remake(_ view: MountedView) throws -> Bool {
    let old = try #require(status(view.real("job")))
    #expect(unlink(view.real("job/old.txt")) == 0)
    // Takes the inode of the file, so that the one of the directory alone is free.
    #expect(mkdir(view.real("other"), 0o755) == 0)
    #expect(rmdir(view.real("job")) == 0)
    #expect(mkdir(view.real("job"), 0o755) == 0)
    rmdir(view.real(".full 0"))
    try put("new", at: view.real("job/new.txt"))
    return status(view.real("job"))?.st_ino == old.st_ino
  }

  @Test(arguments: ["", "profile=none", "coherence=timeout"])
  func programInRemovedDirectory_doesNotReachNewOne(options: String) throws {
    let view = try view(options)
    let old = try OpenFile(view.at("job"), dfs_O_PATH | O_DIRECTORY)
    try #require(try remake(view))
    for look in [false, true] {
      // Whether a client has seen the new directory or not.
      if look { #expect(text(view.at("job/new.txt")) == "new") }
      #expect(failure { openat(old.descriptor, "new.txt", O_RDONLY) } != nil)
      #expect(failure { openat(old.descriptor, "made.txt", O_WRONLY | O_CREAT, 0o644) } != nil)
      #expect(failure { unlinkat(old.descriptor, "new.txt", 0) } != nil)
      #expect(failure { fchmodat(AT_FDCWD, "/proc/self/fd/\(old.descriptor)", 0o700, 0) } != nil)
    }
    #expect(view.realListing("job") == ["new.txt"])
    #expect(text(view.at("job/new.txt")) == "new")
    #expect(status(view.real("job"))?.st_mode == S_IFDIR | 0o755)
  }
}
