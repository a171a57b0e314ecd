import BackingTree
import Glibc
import SystemPackage

extension FilePath {
  /// Looks at a directory in a way that the kernel does not answer from its own caches, where it goes on with what it knows
  /// of a mount whose daemon has died. (`stat`, `statvfs`)
  ///
  /// - Throws: what keeps whoever serves it from answering, ENOTCONN for one that has died.
  func ask() throws(Errno) {
    _ = try stat()
    var space = statvfs()
    try systemCall { withPlatformString { statvfs($0, &space) } }
  }
}
