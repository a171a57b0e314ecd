import Glibc
import Testing

/// `displayfs` and its helper as they are installed: the helper with the capability to register files with the kernel.
enum InstalledProgram {
  /// It is removed when the tests end.
  private static let root: String = {
    // On a mount that is nosuid, as /dev/shm often is, no program has a capability of its own.
    let parent = [Shell.temporaryDirectory, "/var/tmp"].first { path in
      var status = statvfs()
      return statvfs(path, &status) == 0 && status.f_flag & 2 /* ST_NOSUID */ == 0
    }
    var template = Array("\(parent ?? "/tmp")/displayfs-installed-XXXXXX".utf8CString)
    guard let made = mkdtemp(&template) else { return "/nonexistent" }
    atexit { _ = Shell.run(["rm", "-rf", InstalledProgram.root]) }
    chmod(made, 0o755)
    return String(cString: made)
  }()
  static let path = "\(root)/bin/displayfs"
  static let helper = "\(root)/libexec/displayfs/displayfs-passthrough"

  /// CAP_SYS_ADMIN, permitted and effective, version 2.
  private static let administration: [UInt8] = [
    1, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  ]

  /// Whether it could be installed, and files can be registered through it.
  static let isUsable: Bool = {
    guard geteuid() == 0, isPassthroughExpected, OrdinaryUser.canMount else { return false }
    for (source, target) in [(Displayfs.path, path), ("\(Displayfs.path)-passthrough", helper)] {
      guard let program = contents(source), (try? put(program, at: target)) != nil, chmod(target, 0o755) == 0
      else {
        return false
      }
    }
    return setAttribute("security.capability", to: administration, of: helper) == nil
  }()
}

extension Trait where Self == ConditionTrait {
  static var passthroughHelper: Self {
    .enabled(
      if: InstalledProgram.isUsable,
      "The helper cannot be given its capability here, or the kernel passes nothing through.")
  }
}
