import CFuse
import Glibc
import SystemPackage

/// Everything of a client by which a file system judges its calls: a thread assumes all of it, or nothing.
///
/// The groups are those at the time of the request. A later request of the same open file is served with them, as a
/// descriptor keeps the rights that it was opened with, and as the process may be another by then.
public struct Credentials: Sendable {
  public let user: uid_t
  public let group: gid_t
  /// The supplementary groups.
  public let groups: [gid_t]
  public let umask: mode_t

  public init(user: uid_t, group: gid_t, groups: [gid_t], umask: mode_t) {
    self.user = user
    self.group = group
    self.groups = groups
    self.umask = umask
  }

  private static let daemonIsRoot = geteuid() == 0

  /// The user that `act` runs as: the daemon's when that is not root.
  var effectiveUser: uid_t { Self.daemonIsRoot ? user : geteuid() }

  /// Runs `body` with these credentials on this thread. When the daemon is not root it acts as its own user, and only the
  /// umask is the client's.
  ///
  /// - Parameter setID: what is to become of CAP_FSETID, if the user is root.
  /// - Throws: EPERM when the thread cannot have these credentials; then `body` does not run.
  public func act<R: ~Copyable>(
    setID: dfs_setid = DFS_SETID_KEPT, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    var raw = dfs_credentials()
    raw.user = user
    raw.group = group
    raw.umask = umask
    raw.setid = setID
    raw.is_own = !Self.daemonIsRoot
    let isAssumed = groups.withUnsafeBufferPointer { groups in
      raw.groups = groups.baseAddress
      raw.group_count = groups.count
      return dfs_assume_credentials(&raw) == 0
    }
    guard isAssumed else { throw .notPermitted }
    defer { dfs_resume_credentials(&raw) }
    return try body()
  }
}

/// The client that issued a request: every change of the backing tree is made with its credentials, so that ownership,
/// permission and quota are the client's.
public struct Caller: Sendable {
  public let user: uid_t
  public let group: gid_t
  /// The thread that made the request, in the daemon's process-id namespace; 0 when it lives in another.
  public let process: pid_t
  public let umask: mode_t

  public init(user: uid_t, group: gid_t, process: pid_t, umask: mode_t) {
    self.user = user
    self.group = group
    self.process = process
    self.umask = umask
  }

  /// The daemon itself, for tests and for work that no client requested.
  public static var daemon: Caller { Caller(user: geteuid(), group: getegid(), process: getpid(), umask: 0) }

  /// Runs `body` with the client's user, group and umask on this thread, for calls on an entry that the kernel has checked
  /// the client's permissions on (`default_permissions`).
  ///
  /// Supplementary groups are read and set only when the call is refused without them: most are not, and reading them
  /// costs more than the call. Without them the thread has none.
  public func act<R: ~Copyable>(
    setID: dfs_setid = DFS_SETID_KEPT, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    do throws(Errno) {
      return try Credentials(user: user, group: group, groups: [], umask: umask).act(setID: setID, body)
    } catch {
      guard error == .permissionDenied || error == .notPermitted, user != 0, geteuid() == 0 else {
        throw error
      }
      let credentials = credentials
      guard !credentials.groups.isEmpty else { throw error }
      return try credentials.act(setID: setID, body)
    }
  }

  /// As `act`, for what neither writes to a file nor gives it a set-group-ID bit, which root could keep. It costs less where a
  /// file was opened just before.
  public func actWithoutSetID<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    try act(setID: DFS_SETID_ANY, body)
  }

  /// As `act`, with the supplementary groups from the start: for entries that the kernel has not checked the client's
  /// permissions on, such as the parts of a package (a mode like 0604 grants to strangers what it denies to the members of
  /// the group), and for calls whose result depends on the groups (a set-group-ID bit is kept only for members).
  public func actAsMember<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    try credentials.act(body)
  }

  /// With the supplementary groups that the client has now, none when they cannot be read.
  public var credentials: Credentials {
    Credentials(user: user, group: group, groups: supplementaryGroups(), umask: umask)
  }

  /// From `/proc/PID/status`; none when the process is gone or not visible from here, or is not the one that made the request:
  /// the id may have gone to another process.
  private func supplementaryGroups() -> [gid_t] {
    guard geteuid() == 0, user != 0, let status = processStatus(),
      status.numbers("Uid:").last == user, status.numbers("Gid:").last == group
    else { return [] }
    return status.numbers("Groups:")
  }

  /// Whether the client has CAP_SYS_ADMIN in the daemon's user namespace.
  public var isAdministrator: Bool {
    // CAP_SYS_ADMIN is bit 21. A process's capabilities are those in its own user namespace.
    guard let status = processStatus(), let effective = status.field("CapEff:"),
      let capabilities = UInt64(String(decoding: effective, as: UTF8.self), radix: 16),
      capabilities & 1 << 21 != 0
    else { return false }
    var (own, theirs) = (stat(), stat())
    return stat("/proc/self/ns/user", &own) == 0 && stat("/proc/\(process)/ns/user", &theirs) == 0
      && FileIdentity(own) == FileIdentity(theirs)
  }

  /// The process that the requesting thread belongs to; 0 when it cannot be told.
  public var threadGroup: pid_t { processStatus()?.numbers("Tgid:").first.map { pid_t($0) } ?? 0 }

  /// `/proc/PID/status`; nil when the process is gone or not visible from here.
  private func processStatus() -> ProcessStatus? {
    guard process > 0 else { return nil }
    return Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/status").map(ProcessStatus.init)
  }
}

/// The text of `/proc/PID/status`.
private struct ProcessStatus {
  let bytes: [UInt8]

  /// What follows a label, without the blanks around it.
  func field(_ label: StaticString) -> ArraySlice<UInt8>? {
    let label = UnsafeBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount)
    for line in bytes.split(separator: UInt8(ascii: "\n")) where line.starts(with: label) {
      return line.dropFirst(label.count).drop { $0 == 0x20 || $0 == 0x09 }
    }
    return nil
  }

  func numbers(_ label: StaticString) -> [UInt32] {
    field(label)?.split { $0 == 0x20 || $0 == 0x09 }.compactMap {
      UInt32(String(decoding: $0, as: UTF8.self))
    } ?? []
  }
}
