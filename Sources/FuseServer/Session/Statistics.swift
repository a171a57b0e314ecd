import BackingTree
import CFuse
import CLinux
import Glibc
import View

/// The report of a mount about itself: the extended attribute ``attribute`` of its root, one `name: value` on each line.
public enum Statistics {
  /// Reserved by the mount; `displayfs status` reads it.
  static let attribute = ViewStatus.attribute
  /// Empty, for a client that only wants to know whether a daemon replies. For this name the kernel requires no permission, for
  /// which it might request attributes that the backing tree does not give. So any user may query it. (`xattr_permission`)
  public static let unrestrictedAttribute = "system.displayfs.status"

  /// The names of the lines that count since the mount was made: their growth shows the current activity. `requests` counts each
  /// kind.
  public static let counters: Set = [
    "opens passed through", "opens served by the daemon", "opens that kept cached data", "listings asked for",
    "listings read",
    "packages asked for", "packages walked", "requests",
  ]

  static func report(of server: Server) -> [UInt8] {
    let view = server.view
    let lines =
      server.passthrough.report + [
        ("opens that kept cached data", "\(server.pageCachePolicy.keptCount)"),
        ("changes heard of", changeDetection(by: view)), ("changes told", changeReporting(by: server)),
        ("locks", server.locks == nil ? "kept by the kernel, for this mount" : "passed to the backing tree"),
        ("known files", "\(view.nodes.count)"), ("listings kept", "\(view.cachedListingCount)"),
        ("listings asked for", "\(view.directories.listings.requested)"),
        ("listings read", "\(view.directories.listings.fetched)"),
        ("packages asked for", "\(view.packageMeasures.requested)"),
        ("packages walked", "\(view.packageMeasures.fetched)"), ("memory", memory), ("requests", requests),
      ]
    return Array(lines.map { "\($0.0): \($0.1)\n" }.joined().utf8)
  }

  private static func changeDetection(by view: View) -> String {
    let interfaces = view.watchInterfaces
    let report =
      interfaces.isEmpty
      ? "no: the kernel has neither fanotify nor inotify to offer"
      : "by \(interfaces.joined(separator: " and "))"
    return view.source.coherence.mode == .timeout ? "\(report), and by comparing times" : report
  }

  /// Whether programs that watch the mount are notified of changes in the backing tree.
  private static func changeReporting(by server: Server) -> String {
    if !server.view.options.profile.appliesRules { return "no: a mirror does not compare listings" }
    return server.replay == nil ? "no: the mount is read-only" : "yes"
  }

  /// The daemon's resident memory (proc(5), the second number of `statm`, in pages).
  private static var memory: String {
    let numbers = (Directory(descriptor: AT_FDCWD).wholeFile("/proc/self/statm") ?? []).split(separator: 0x20)
    let pages = numbers.count > 1 ? Int(String(decoding: numbers[1], as: UTF8.self)) ?? 0 : 0
    return "\(pages * Int(getpagesize()) / 1024) KiB"
  }

  /// The kernel's requests by kind, the most frequent first.
  private static var requests: String {
    let counts = names.map { (name: $0.name, count: dfs_request_count($0.code)) }.filter { $0.count > 0 }
    return counts.sorted { $0.count > $1.count }.map { "\($0.count) \($0.name)" }.joined(separator: ", ")
  }

  /// `enum fuse_opcode` of linux/fuse.h.
  private static let names: [(code: UInt32, name: String)] = [
    (1, "lookup"), (2, "forget"), (3, "getattr"), (4, "setattr"), (5, "readlink"), (6, "symlink"),
    (8, "mknod"),
    (9, "mkdir"), (10, "unlink"), (11, "rmdir"), (12, "rename"), (13, "link"), (14, "open"), (15, "read"),
    (16, "write"), (17, "statfs"), (18, "release"), (20, "fsync"), (21, "setxattr"), (22, "getxattr"),
    (23, "listxattr"), (24, "removexattr"), (25, "flush"), (26, "init"), (27, "opendir"), (28, "readdir"),
    (29, "releasedir"), (30, "fsyncdir"), (34, "access"), (35, "create"), (36, "interrupt"),
    (42, "batch_forget"),
    (43, "fallocate"), (44, "readdirplus"), (45, "rename2"), (46, "lseek"), (47, "copy_file_range"),
    (50, "syncfs"),
    (51, "tmpfile"), (52, "statx"), (53, "copy_file_range_64"),
  ]
}
