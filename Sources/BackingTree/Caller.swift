import CFuse
import Glibc
import SystemPackage

/// Who asks: every change of the backing tree is made as this user, so that ownership, permission and quota are theirs.
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

  /// The daemon itself, for tests and for work that nobody asked for.
  public static var daemon: Caller { Caller(user: geteuid(), group: getegid(), process: getpid(), umask: 0) }

  private static let daemonIsRoot = geteuid() == 0

  /// Runs `body` with the caller's user, group and umask on this thread.
  ///
  /// Supplementary groups are read and set only when the call is refused without them: most are not, and reading them
  /// costs more than the call. When the daemon is not root everything happens as its own user.
  public func act<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    dfs_take_back_setid()
    return try actWithoutSetID(body)
  }

  /// As `act`, for what neither writes to a file nor gives it a set-group-ID bit, which root could keep. It costs less where a
  /// file was opened just before.
  public func actWithoutSetID<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    dfs_set_thread_umask(umask)
    guard Self.daemonIsRoot, user != 0 || group != 0 else { return try body() }
    guard dfs_set_thread_identity(user, group) == 0 else { throw .notPermitted }
    defer { _ = dfs_set_thread_identity(0, 0) }
    do {
      return try body()
    } catch {
      guard error == .permissionDenied || error == .notPermitted, user != 0,
        let groups = supplementaryGroups(),
        !groups.isEmpty
      else { throw error }
      return try withGroups(groups, body)
    }
  }

  /// As `act`, with the supplementary groups from the start: for calls whose result, not only whose success, depends
  /// on them (a set-group-ID bit is kept only for members of the group).
  public func actAsMember<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    dfs_take_back_setid()
    dfs_set_thread_umask(umask)
    guard Self.daemonIsRoot, user != 0 || group != 0 else { return try body() }
    return try withGroups(supplementaryGroups() ?? [], body)
  }

  private func withGroups<R: ~Copyable>(_ groups: [gid_t], _ body: () throws(Errno) -> R) throws(Errno) -> R {
    // Groups can only be set by root: back first, then down again.
    _ = dfs_set_thread_identity(0, 0)
    guard groups.withUnsafeBufferPointer({ dfs_set_thread_groups($0.baseAddress, $0.count) }) == 0,
      dfs_set_thread_identity(user, group) == 0
    else { throw .notPermitted }
    defer {
      _ = dfs_set_thread_identity(0, 0)
      _ = dfs_set_thread_groups(nil, 0)
    }
    return try body()
  }

  /// From `/proc/PID/status`; nil when the process is gone or not visible from here.
  private func supplementaryGroups() -> [gid_t]? {
    guard let bytes = processStatus() else { return nil }
    for line in bytes.split(separator: UInt8(ascii: "\n")) where line.starts(with: "Groups:".utf8) {
      return line.dropFirst(7).split { $0 == 0x20 || $0 == 0x09 }.compactMap {
        gid_t(String(decoding: $0, as: UTF8.self))
      }
    }
    return nil
  }

  /// The process that the requesting thread belongs to; 0 when it cannot be told.
  public var threadGroup: pid_t {
    guard let bytes = processStatus() else { return 0 }
    for line in bytes.split(separator: UInt8(ascii: "\n")) where line.starts(with: "Tgid:".utf8) {
      return pid_t(String(decoding: line.dropFirst(6), as: UTF8.self)) ?? 0
    }
    return 0
  }

  /// `/proc/PID/status`; nil when the process is gone or not visible from here.
  private func processStatus() -> [UInt8]? {
    process > 0 ? Directory(descriptor: AT_FDCWD).wholeFile("/proc/\(process)/status") : nil
  }
}
