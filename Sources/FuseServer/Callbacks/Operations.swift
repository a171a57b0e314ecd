import CFuse
import CLinux
import Glibc

/// The table of callbacks that libfuse calls. Each group of operations has its own file.
enum Operations {
  static func table() -> fuse_lowlevel_ops {
    var table = fuse_lowlevel_ops()
    addLifetime(to: &table)
    addNames(to: &table)
    addAttributes(to: &table)
    addFiles(to: &table)
    addDirectories(to: &table)
    addExtendedAttributes(to: &table)
    return table
  }
}
