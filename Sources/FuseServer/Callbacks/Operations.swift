import CFuse
import CLinux
import Glibc

/// The table of callbacks that libfuse calls. Each group of operations has its own file.
enum Operations {
  /// - Parameter passesLocks: whether the locks of clients are passed to the backing tree.
  static func table(passesLocks: Bool) -> fuse_lowlevel_ops {
    var table = fuse_lowlevel_ops()
    addLifetime(to: &table)
    addNames(to: &table)
    addAttributes(to: &table)
    addFiles(to: &table)
    addDirectories(to: &table)
    addExtendedAttributes(to: &table)
    if passesLocks { addLocks(to: &table) }
    return table
  }
}
