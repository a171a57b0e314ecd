import CBench
import Glibc

/// The user that mounts and works in the mount.
///
/// Without allow_other the kernel serves a user's FUSE mount to that user alone, not even to root, and compares all of a
/// thread's ids (`fuse_allow_current_process`). So what is to be measured runs in a thread that has become that user, and
/// the programs that it starts inherit this.
enum Account {
  /// The user that runs the benchmark.
  case current
  case other(name: String, user: uid_t, group: gid_t)

  static var isRoot: Bool { geteuid() == 0 }

  /// - Throws: when there is no user of that name.
  static func named(_ name: String) throws -> Account {
    guard let entry = getpwnam(name) else { throw Problem("there is no user \(name)") }
    return .other(name: name, user: entry.pointee.pw_uid, group: entry.pointee.pw_gid)
  }

  /// Runs `body` as this user and waits for it.
  func perform<T>(_ body: @escaping () throws -> T) throws -> T {
    guard case .other(let name, let user, let group) = self else { return try body() }
    return try onNewThread {
      if bench_become(user, group) != 0 { throw Problem.system("becoming \(name)") }
      return try body()
    }
  }

  /// Makes a directory that belongs to this user.
  func makeDirectory(_ path: String) throws {
    try Files.mustSucceed(mkdir(path, 0o755), path)
    if case .other(_, let user, let group) = self { try Files.mustSucceed(chown(path, user, group), path) }
  }
}
