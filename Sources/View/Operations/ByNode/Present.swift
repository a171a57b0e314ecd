import BackingTree
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// Attributes as the view shows them.
extension View {
  /// A backing status as the view shows it, of anything but a package that is a file.
  func present(_ status: stat) -> stat {
    var out = status
    out.st_ino = inodeNumber(FileIdentity(status), .plain)
    return out
  }

  /// The backing status of `name` in `directory` as the view shows it.
  ///
  /// - Parameter parent: the node of `directory`.
  /// - Throws: EINTR when the walk of a package was interrupted, ESTALE when the package has just been moved.
  func present(
    _ status: stat, nodeKind: NodeKind, name: UnsafePointer<CChar>, in directory: DirectoryHandle,
    parent: NodeID
  ) throws(Errno) -> stat {
    var out = status
    switch nodeKind {
    case .plain: return present(status)
    case .packageFile: break
    case .alias:
      out.st_ino = inodeNumber(FileIdentity(status), nodeKind)
      out.st_mode = S_IFLNK | 0o777
      out.st_nlink = 1
      // The target may just have gone: the request for the text then has the kernel look the name up again.
      out.st_size = off_t((try? aliasText(of: Name(copying: name), in: parent, directory))?.count ?? 0)
      out.st_blocks = 0
      return out
    }
    out.st_ino = inodeNumber(FileIdentity(status), nodeKind)
    out.st_mode = S_IFREG | (status.st_mode & 0o666)
    out.st_nlink = 1
    let measure = try packages.sizes.measure(
      name, in: directory.directory, type: inspector.typeIdentifier(of: Name(copying: name)))
    out.st_size = off_t(measure.size)
    out.st_blocks = blkcnt_t((measure.size + 511) / 512)
    out.st_mtim = measure.newest
    return out
  }

  /// The inode number in the view: the backing inode number, made unique for package files and for aliases that are symlinks (bit
  /// 62 is set), and for files on another device than SOURCE (the number is mixed with the device).
  func inodeNumber(_ identity: FileIdentity, _ nodeKind: NodeKind) -> UInt {
    var number = identity.inode
    if identity.device != source.device {
      number ^= (identity.device &* 0x9e37_79b9_7f4a_7c15) & 0x3fff_0000_0000_0000
    }
    if nodeKind != .plain { number ^= 1 << 62 }
    return UInt(number)
  }
}
