import Glibc
import Testing

/// A daemon in a control group with a limit of memory has the kernel forget files. (FUSE_NOTIFY_PRUNE)
@Suite(.mounting) struct KnownFilesTests {
  /// The directory of control groups with a memory controller, and the names of its files.
  private static let controller: (directory: String, limit: String)? =
    if isThere("/sys/fs/cgroup/memory/memory.limit_in_bytes") {
      ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else if text("/sys/fs/cgroup/cgroup.subtree_control")?.contains("memory") ?? false {
      ("/sys/fs/cgroup", "memory.max")
    } else {
      nil
    }

  @Test(
    .enabled(if: geteuid() == 0, "Only root makes control groups."),
    .enabled(if: controller != nil, "There are no control groups with a memory controller."),
    .enabled(if: !kernelRelease.lexicographicallyPrecedes([6, 18]), "Linux knows the message since 6.18."))
  func knownFiles_ofDaemonWithLittleMemory_stayBelowItsLimit() throws {
    let (directory, limit) = try #require(Self.controller)
    let group = "\(directory)/displayfs-test-\(getpid())"
    try #require(mkdir(group, 0o755) == 0)
    defer { _ = eventually { rmdir(group) == 0 } }
    // An eighth of 64 MiB has room for 40 329 files.
    let megabytes = 64
    try put("\(megabytes << 20)", at: "\(group)/\(limit)")
    let view = try MountedView { root in
      for number in 0..<60 {
        makeDirectory("\(root)/\(number)")
        for name in 0..<1000 {
          close(open("\(root)/\(number)/\(name)", O_CREAT | O_WRONLY | O_CLOEXEC, 0o644))
        }
      }
    }
    view.unmount()
    #expect(
      Shell.run(
        "echo $$ >'\(group)/cgroup.procs' && exec '\(Displayfs.path)' '\(view.source)' '\(view.mountPoint)'"
      ).status
        == 0)
    #expect(view.shell("find . -type f -size -1 | wc -l").text == "60000")
    #expect(try eventually(within: .work) { try view.reportedNumber("known files") <= 40_329 })
    // What was forgotten is still there.
    #expect(view.shell("find . -type f -size -1 | wc -l").text == "60000")
  }
}
