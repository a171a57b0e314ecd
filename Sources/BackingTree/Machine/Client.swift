import CLinux
import Glibc
import SystemPackage

/// The credentials of a client that a file system checks. A thread assumes all of them or none.
///
/// The groups are those at the time of the request. Later requests on the same open file use them too: a descriptor keeps the
/// rights that it was opened with, and the process id may belong to another process by then.
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

  static let isDaemonRoot = geteuid() == 0

  /// The user that the rights of a call with these credentials are those of.
  var effectiveUser: uid_t { Self.isDaemonRoot || !limitCalls ? user : geteuid() }

  /// Runs `body` with these credentials on the calling thread. A daemon that is not root keeps its own ids and sets only the
  /// client's umask.
  ///
  /// - Parameters:
  ///   - setID: whether a thread of user root keeps CAP_FSETID.
  ///   - makesFiles: whether `body` may make files. If not, the thread keeps its own umask.
  /// - Throws: EPERM when the thread cannot assume these credentials; then `body` does not run.
  public func impersonate<R: ~Copyable>(
    setID: dfs_setid = DFS_SETID_KEPT, makesFiles: Bool = true, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    var raw = dfs_credentials()
    raw.user = user
    raw.group = group
    raw.umask = umask
    raw.sets_umask = makesFiles
    raw.setid = setID
    raw.is_own = !Self.isDaemonRoot
    let areAssumed = groups.withUnsafeBufferPointer { groups in
      raw.groups = groups.baseAddress
      raw.group_count = groups.count
      return dfs_assume_credentials(&raw) == 0
    }
    guard areAssumed else { throw .notPermitted }
    defer { dfs_restore_credentials(&raw) }
    return try body()
  }
}

/// The client that issued a request. Every change of the backing tree is made with its credentials, so that ownership,
/// permissions and quota are the client's.
public struct Client: Sendable {
  public let user: uid_t
  public let group: gid_t
  /// The thread that issued the request, in the daemon's process-id namespace; 0 when the thread is not visible in it.
  public let thread: pid_t
  public let umask: mode_t

  public init(user: uid_t, group: gid_t, thread: pid_t, umask: mode_t) {
    self.user = user
    self.group = group
    self.thread = thread
    self.umask = umask
  }

  /// The daemon's own credentials, for tests and for work that no client requested.
  public static var daemon: Client { Client(user: geteuid(), group: getegid(), thread: getpid(), umask: 0) }

  /// Runs `body` with the client's user and group on the calling thread. For calls on an entry whose permissions the kernel has
  /// already checked for the client (`default_permissions`).
  ///
  /// The thread has no supplementary groups at first. They are read and set only when the call fails with EACCES or EPERM: most
  /// calls succeed, and reading the groups costs more than the call.
  ///
  /// - Parameter makesFiles: whether `body` may make files, with the client's umask. The kernel sends that only with requests that
  ///   make something; for any other the thread would set a umask of 0 and then its own again.
  public func impersonate<R: ~Copyable>(
    setID: dfs_setid = DFS_SETID_KEPT, makesFiles: Bool = false, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    do throws(Errno) {
      return try Credentials(user: user, group: group, groups: [], umask: umask).impersonate(
        setID: setID, makesFiles: makesFiles, body)
    } catch {
      guard error == .permissionDenied || error == .notPermitted, user != 0, geteuid() == 0 else {
        throw error
      }
      let credentials = credentials
      guard !credentials.groups.isEmpty else { throw error }
      return try credentials.impersonate(setID: setID, makesFiles: makesFiles, body)
    }
  }

  /// Like `impersonate`, for calls that neither write to a file nor set a set-group-ID bit, so that CAP_FSETID of root does not
  /// matter. Cheaper when the thread opened a file just before.
  public func impersonateWithAnySetID<R: ~Copyable>(
    makesFiles: Bool = false, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    try impersonate(setID: DFS_SETID_ANY, makesFiles: makesFiles, body)
  }

  /// Like `impersonate`, with the supplementary groups from the start. Needed for entries whose permissions the kernel has not
  /// checked for the client, such as the parts of a package (a mode like 0604 grants to strangers what it denies to the group's
  /// members), and for calls whose result depends on the groups (a set-group-ID bit is kept only for members of the group).
  public func impersonateWithGroups<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    try credentials.impersonate(body)
  }

  /// The client's credentials with its present supplementary groups; without groups when they cannot be read.
  public var credentials: Credentials {
    Credentials(user: user, group: group, groups: supplementaryGroups(), umask: umask)
  }

  /// The groups from `/proc/PID/status`. Empty when the process is gone or not visible to the daemon, or when its user or group
  /// differ from the request's: the id may have been reused by another process.
  private func supplementaryGroups() -> [gid_t] {
    guard geteuid() == 0, user != 0, let status = processStatus(),
      status.numbers("Uid:").last == user, status.numbers("Gid:").last == group
    else { return [] }
    return status.numbers("Groups:")
  }

  /// Whether the client has CAP_SYS_ADMIN in the daemon's user namespace.
  public var isAdministrator: Bool {
    // CAP_SYS_ADMIN is bit 21. A process has its capabilities in its own user namespace, so that namespace must be the daemon's.
    guard let status = processStatus(), let effective = status.field("CapEff:"),
      let capabilities = UInt64(String(decoding: effective, as: UTF8.self), radix: 16),
      capabilities & 1 << 21 != 0
    else { return false }
    var (own, theirs) = (stat(), stat())
    return stat("/proc/self/ns/user", &own) == 0 && stat("/proc/\(thread)/ns/user", &theirs) == 0
      && FileIdentity(own) == FileIdentity(theirs)
  }

  /// The process that the requesting thread belongs to; 0 when it cannot be read, and for a thread of the kernel: those of an NFS
  /// server serve its clients by turns.
  public var threadGroup: pid_t {
    // Reading /proc would take longer than the change that most requests are for.
    if thread > 0, dfs_is_first_thread(thread) { return thread }
    let kthreadd: UInt32 = 2
    guard let status = processStatus() else { return 0 }
    // The number alone may be that of any process, where the daemon runs in a container.
    if status.numbers("PPid:").first == kthreadd, dfs_is_kernel_thread(thread) { return 0 }
    return status.numbers("Tgid:").first.map { pid_t($0) } ?? 0
  }

  /// The content of `/proc/PID/status`; nil when the process is gone or not visible to the daemon.
  private func processStatus() -> ProcessStatus? {
    guard thread > 0 else { return nil }
    return Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(thread)/status").map(ProcessStatus.init)
  }
}

/// The text of `/proc/PID/status`.
private struct ProcessStatus {
  let bytes: [UInt8]

  /// The rest of the line that begins with `label`, without leading blanks.
  func field(_ label: StaticString) -> ArraySlice<UInt8>? {
    let label = UnsafeBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount)
    var rest = bytes[...]
    while !rest.isEmpty {
      let line = rest.prefix { $0 != UInt8(ascii: "\n") }
      if line.starts(with: label) { return line.dropFirst(label.count).drop { $0 == 0x20 || $0 == 0x09 } }
      rest = rest[line.endIndex...].dropFirst()
    }
    return nil
  }

  func numbers(_ label: StaticString) -> [UInt32] {
    field(label)?.split { $0 == 0x20 || $0 == 0x09 }.compactMap {
      UInt32(String(decoding: $0, as: UTF8.self))
    } ?? []
  }
}
