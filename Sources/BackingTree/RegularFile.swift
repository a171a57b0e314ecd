import CFuse
import Glibc
import SystemPackage

/// A regular file that the daemon opened by itself, and what it was found to be.
public struct RegularFile: ~Copyable {
  public let descriptor: Descriptor
  public let status: stat
}

extension Directory {
  /// Opens a regular file of one or several components below this directory, none of them a symlink.
  ///
  /// Opening a device acts on it, and opening a FIFO tells its other end that somebody came, whatever the flags. So the
  /// file is named first (O_PATH), which touches nothing, and what was named is opened, whatever has its name by then.
  /// Nobody's lease on it is waited for. Reading does not change the time of the last access where O_NOATIME is allowed, which is
  /// to the owner and to root: a program that has just set that time (`cp -p`) finds it unchanged.
  ///
  /// - Throws: EISDIR for a directory, ENXIO for everything else that is not regular, as open(2) does of a socket; the errors
  ///   of `openat2` and `open`.
  public func openRegular(_ path: UnsafePointer<CChar>, _ flags: CInt) throws(Errno) -> RegularFile {
    let named = try openBeneath(path, dfs_O_PATH)
    guard flags & O_ACCMODE == O_RDONLY else { return try named.openedRegular(flags) }
    do throws(Errno) { return try named.openedRegular(flags | dfs_O_NOATIME) } catch {
      guard error == .notPermitted else { throw error }
      return try named.openedRegular(flags)
    }
  }

  /// As `openRegular`, by a path however long.
  public func openDeepRegular(_ path: [UInt8], _ flags: CInt) throws(Errno) -> RegularFile {
    try locateDeep(path).openedRegular(flags)
  }
}

extension Descriptor {
  fileprivate borrowing func openedRegular(_ flags: CInt) throws(Errno) -> RegularFile {
    let status = try fileStatus(rawValue)
    switch status.st_mode & S_IFMT {
    case S_IFREG: return RegularFile(descriptor: try opened(flags | O_NONBLOCK), status: status)
    case S_IFDIR: throw .isDirectory
    default: throw .noSuchAddressOrDevice
    }
  }

  /// Opens what this one names once more, with other flags. (`open` of `/proc/self/fd/N`)
  public borrowing func opened(_ flags: CInt) throws(Errno) -> Descriptor {
    Descriptor(adopting: try systemCall { dfs_reopen(rawValue, flags) })
  }
}
