import CLinux
import Glibc
import SystemPackage

/// UTIME_OMIT of <sys/stat.h>, a macro that Swift does not import.
private let omitted = (1 << 30) - 2

extension Directory {
  /// Changes an entry's owner and group. (`fchownat`, AT_SYMLINK_NOFOLLOW)
  public func setOwner(_ name: UnsafePointer<CChar>, _ owner: uid_t, _ group: gid_t) throws(Errno) {
    try systemCall { fchownat(descriptor, name, owner, group, AT_SYMLINK_NOFOLLOW) }
  }

  /// Changes the permission bits of an entry that is no symlink. (`fchmodat`, AT_SYMLINK_NOFOLLOW)
  public func setPermissions(_ name: UnsafePointer<CChar>, _ mode: mode_t) throws(Errno) {
    try systemCall { fchmodat(descriptor, name, mode, AT_SYMLINK_NOFOLLOW) }
  }

  /// Changes an entry's modification time and leaves the access time. (`utimensat`, AT_SYMLINK_NOFOLLOW)
  public func setModified(_ name: UnsafePointer<CChar>, _ time: timespec) throws(Errno) {
    let times = [timespec(tv_sec: 0, tv_nsec: omitted), time]
    try systemCall { utimensat(descriptor, name, times, AT_SYMLINK_NOFOLLOW) }
  }
}

/// Changes the owner and group of an open file. (`fchown`)
public func setOwner(_ descriptor: CInt, _ owner: uid_t, _ group: gid_t) throws(Errno) {
  try systemCall { fchown(descriptor, owner, group) }
}

/// Changes the permission bits of an open file. (`fchmod`)
public func setPermissions(_ descriptor: CInt, _ mode: mode_t) throws(Errno) {
  try systemCall { fchmod(descriptor, mode) }
}

/// Changes the modification time of an open file and leaves its access time. (`futimens`)
public func setModified(_ descriptor: CInt, _ time: timespec) throws(Errno) {
  let times = [timespec(tv_sec: 0, tv_nsec: omitted), time]
  try systemCall { futimens(descriptor, times) }
}

/// Sets the size of an open file. A range added at the end is a hole. (`ftruncate`)
public func setSize(_ descriptor: CInt, _ size: Int64) throws(Errno) {
  try systemCall { ftruncate(descriptor, off_t(size)) }
}

/// Writes the dirty data of the descriptor's file system to its storage. (`syncfs`)
public func syncFileSystem(of descriptor: CInt) throws(Errno) {
  try systemCall { dfs_syncfs(descriptor) }
}
