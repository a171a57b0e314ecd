import CLinux
import Glibc
import SystemPackage

/// A regular file that the daemon opened for itself, and its status.
public struct RegularFile: ~Copyable {
  public let descriptor: Descriptor
  public let status: stat
}

extension Directory {
  /// Opens a regular file of one or several components below this directory. No component may be a symlink.
  ///
  /// Opening a device acts on it, and opening a FIFO wakes the process at its other end, whatever the flags. The file is
  /// therefore first opened with O_PATH, which has no such effect, and then reopened through that descriptor, even if the name
  /// leads elsewhere by then. It does not wait for a lease on the file to be released. Reading does not change the access time
  /// where O_NOATIME is allowed, which is for the owner and root: a program that has just set that time (`cp -p`) finds it
  /// unchanged.
  ///
  /// - Throws: EISDIR for a directory, ENXIO for every other type, as open(2) does for a socket; the errors of `openat2` and
  ///   `open`.
  public func openRegular(_ path: UnsafePointer<CChar>, _ flags: CInt) throws(Errno) -> RegularFile {
    let named = try openBeneath(path, dfs_O_PATH)
    guard flags & O_ACCMODE == O_RDONLY else { return try named.openedRegular(flags) }
    do throws(Errno) { return try named.openedRegular(flags | dfs_O_NOATIME) } catch {
      guard error == .notPermitted else { throw error }
      return try named.openedRegular(flags)
    }
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

  /// Whether a process has the file open for writing, or mapped so. False where the file system does not show that. The descriptor
  /// must be open for reading only. (`fcntl`, F_SETLEASE: EAGAIN)
  public borrowing func hasWriter() -> Bool { dfs_may_be_open_for_writing(rawValue) && errno == EAGAIN }

  /// Reopens the file with other flags. (`open` of `/proc/self/fd/N`)
  public borrowing func opened(_ flags: CInt) throws(Errno) -> Descriptor {
    Descriptor(adopting: try systemCall { dfs_reopen(rawValue, flags) })
  }
}
