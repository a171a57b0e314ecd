import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage

/// `displayfs-passthrough`, which registers files for an ordinary user's daemon.
public final class PassthroughHelper: Sendable {
  /// Locked while a message is sent and its reply awaited.
  private let helper = Guarded(dfs_helper())

  /// Starts the program for a session.
  ///
  /// - Throws: EPERM when the program has no right to register files, or the errno of starting it.
  init(_ program: FilePath, for session: OpaquePointer) throws(Errno) {
    let device = fuse_session_fd(session)
    let error = program.withPlatformString { path in helper.withLock { dfs_helper_start(&$0, path, device) } }
    if error != 0 { throw Errno(rawValue: error) }
  }

  /// - Returns: the backing id.
  /// - Throws: EPIPE when the program has ended or does not reply; EDQUOT when the user has the maximum of files registered;
  ///   EACCES when the user may not write the file, as the registration would make the file writable.
  func register(_ file: CInt) throws(Errno) -> CInt {
    try helper.withLock { (helper) throws(Errno) in
      let id = dfs_helper_register(&helper, file)
      if id <= 0 { throw Errno(rawValue: errno) }
      return id
    }
  }

  func unregister(_ id: CInt) { helper.withLock { dfs_helper_unregister(&$0, id) } }

  deinit { helper.withLock { dfs_helper_end(&$0) } }

  /// The installed program; nil where there is none.
  public static var program: FilePath? { HelperProgram.path("displayfs-passthrough") }
}
