import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

/// The callbacks for locks that are passed to the backing tree. Where the table has none of them, the kernel keeps the locks
/// itself.
extension Operations {
  static func addLocks(to table: inout fuse_lowlevel_ops) {
    table.getlk = { raw, _, info, range in
      Request.serve(raw) { (request) throws(Errno) in
        let (locks, open) = try request.locks(of: info)
        var found = try locks.conflict(with: range!.pointee, of: info!.pointee.lock_owner, in: open)
        fuse_reply_lock(raw, &found)
      }
    }
    table.setlk = { raw, _, info, range, waits in
      Request.serve(raw) { (request) throws(Errno) in
        let (locks, open) = try request.locks(of: info)
        let (range, owner, client) = (range!.pointee, info!.pointee.lock_owner, request.client)
        try request.lock(open, locks, isRelease: range.l_type == F_UNLCK, waits: waits != 0) {
          () throws(Errno) in
          try locks.set(range, of: owner, in: open, for: client)
        }
      }
    }
    table.flock = { raw, _, info, operation in
      Request.serve(raw) { (request) throws(Errno) in
        let (locks, open) = try request.locks(of: info)
        let (owner, client) = (info!.pointee.lock_owner, request.client)
        try request.lock(
          open, locks, isRelease: operation & LOCK_UN != 0, waits: operation & LOCK_NB == 0
        ) { () throws(Errno) in
          try locks.flock(operation & ~LOCK_NB, of: owner, in: open, for: client)
        }
      }
    }
  }
}

extension Request {
  fileprivate func locks(of info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> (
    FileLocks, FileLocks.Open
  ) {
    guard let locks = server.locks, let open = Handle.locked(info) else { throw .badFileDescriptor }
    return (locks, open)
  }

  /// Replies when the lock is set, or at once with EAGAIN.
  ///
  /// A client that gets a lock expects to read what its last owner has written, maybe beneath the view, a moment ago.
  fileprivate func lock(
    _ open: FileLocks.Open, _ locks: FileLocks, isRelease: Bool, waits: Bool,
    _ attempt: @escaping @Sendable () throws(Errno) -> Void
  ) throws(Errno) {
    if !isRelease, open.file != nil, !server.passthrough.isPassedThrough(open.node) {
      let notifier = server.notifier!
      return locks.waiters.add(self, for: open.node, waits: waits, isFirstAttempt: true) { () throws(Errno) in
        try attempt()
        notifier.dropContent(of: open.node)
      }
    }
    do throws(Errno) { try attempt() } catch {
      guard waits, error == .resourceTemporarilyUnavailable else { throw error }
      return locks.waiters.add(self, for: open.node, waits: true, isFirstAttempt: false, attempt)
    }
    succeed()
  }
}
