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
  /// - Throws: EINTR when the walk of a package was interrupted.
  func present(
    _ status: stat, nodeKind: NodeKind, name: UnsafePointer<CChar>, in directory: Directory
  ) throws(Errno) -> stat {
    guard nodeKind == .packageFile else { return present(status) }
    var out = status
    out.st_ino = inodeNumber(FileIdentity(status), nodeKind)
    out.st_mode = S_IFREG | (status.st_mode & 0o666)
    out.st_nlink = 1
    let measure = try packages.sizes.measure(
      name, in: directory, type: inspector.typeIdentifier(of: Name(copying: name)))
    out.st_size = off_t(measure.size)
    out.st_blocks = blkcnt_t((measure.size + 511) / 512)
    out.st_mtim = measure.newest
    return out
  }

  /// The inode number in the view: the backing inode number, made unique for package files (bit 62 is set) and for files on
  /// another device than SOURCE (the number is mixed with the device).
  func inodeNumber(_ identity: FileIdentity, _ nodeKind: NodeKind) -> UInt {
    var number = identity.inode
    if identity.device != source.device {
      number ^= (identity.device &* 0x9e37_79b9_7f4a_7c15) & 0x3fff_0000_0000_0000
    }
    if nodeKind == .packageFile { number ^= 1 << 62 }
    return UInt(number)
  }
}
