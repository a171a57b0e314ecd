import BackingTree
import Glibc
import SystemPackage

extension FilePath {
  /// Calls stat(2) and statvfs(2) on a directory. Not both are served from the kernel's caches, which stay in use for a mount
  /// whose daemon has died.
  ///
  /// - Throws: the error of the call. Where the daemon of a mount has died, that is ENOTCONN or ECONNREFUSED.
  func statBypassingCache() throws(Errno) {
    _ = try stat()
    var space = statvfs()
    try systemCall { withPlatformString { statvfs($0, &space) } }
  }
}
