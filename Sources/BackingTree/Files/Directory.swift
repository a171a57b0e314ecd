import CLinux
import Glibc
import SystemPackage

/// A directory of the backing tree, by a descriptor whose owner keeps it open.
///
/// Every call takes the name of one entry of this directory (no `/` in it) and never follows a symlink. Every call throws the
/// `errno` of the C function that it wraps.
public struct Directory: Sendable {
  public let descriptor: CInt

  public init(descriptor: CInt) { self.descriptor = descriptor }

  /// The status of an entry; of the directory itself when `name` is empty. (`fstatat`)
  public func status(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    var out = stat()
    try systemCall { fstatat(descriptor, name, &out, AT_SYMLINK_NOFOLLOW | 0x1000 /* AT_EMPTY_PATH */) }
    return out
  }

  /// The status of an entry as cached by the kernel. The kernel does not send a request to a FUSE or network file system mounted
  /// there, which may hang. (`statx`, AT_STATX_DONT_SYNC)
  ///
  /// On a local file system the status is up to date. It includes the `Birth`.
  public func cachedStatus(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    var out = stat()
    try systemCall { dfs_cached_status(descriptor, name, &out) }
    return out
  }

  /// The status of the directory itself. (`fstat`)
  public func status() throws(Errno) -> stat { try fileStatus(descriptor) }

  /// The same, as the server of a network file system has it now. If it has changed, the kernel drops the entries of the
  /// directory that it has cached, as an open of the directory by name makes it do. (`statx`, AT_STATX_FORCE_SYNC)
  ///
  /// On a local file system it costs no more than `status()`.
  public func latestStatus() throws(Errno) -> stat { try latestStatus("") }

  /// The same for an entry; for the directory itself when `name` is empty.
  public func latestStatus(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    var out = stat()
    try systemCall { dfs_latest_status(descriptor, name, &out) }
    return out
  }

  /// Opens an entry. (`openat` with O_NOFOLLOW and O_CLOEXEC)
  public func open(
    _ name: UnsafePointer<CChar>, _ flags: CInt, mode: mode_t = 0
  ) throws(Errno) -> Descriptor {
    Descriptor(adopting: try systemCall { dfs_openat(descriptor, name, flags, mode) })
  }

  /// Opens an entry as a reference: works on every type and needs no permission on the entry. (`openat`, O_PATH)
  public func locate(_ name: UnsafePointer<CChar>) throws(Errno) -> Descriptor { try open(name, dfs_O_PATH) }

  /// Opens a sub-directory to work relative to it. (`openat`, O_PATH | O_DIRECTORY)
  public func subdirectory(_ name: UnsafePointer<CChar>) throws(Errno) -> Descriptor {
    try open(name, dfs_O_PATH | dfs_O_DIRECTORY)
  }

  /// Opens a path of several components below this directory. No component may be a symlink or `..` out of it. (`openat2`)
  public func openBeneath(_ path: UnsafePointer<CChar>, _ flags: CInt) throws(Errno) -> Descriptor {
    Descriptor(adopting: try systemCall { dfs_open_beneath(descriptor, path, flags) })
  }

  /// The same as a reference: works on every type and needs no permission on the entry. (`openat2`, O_PATH)
  public func locateBeneath(_ path: UnsafePointer<CChar>) throws(Errno) -> Descriptor {
    try openBeneath(path, dfs_O_PATH)
  }

  /// The status of what a path of several components below this directory leads to. No component may be a symlink.
  public func statusBeneath(_ path: UnsafePointer<CChar>) throws(Errno) -> stat {
    let opened = try locateBeneath(path)
    return try fileStatus(opened.rawValue)
  }

  /// Opens the directory itself for reading, even if `descriptor` is an O_PATH descriptor. (`openat`)
  public func openForReading() throws(Errno) -> Descriptor {
    do throws(Errno) { return try open(".", O_RDONLY | dfs_O_DIRECTORY) } catch {
      // Opening `.` needs search permission on the directory, which reading it does not need. The link in /proc needs none.
      guard error == .permissionDenied else { throw error }
      return Descriptor(adopting: try systemCall { dfs_reopen(descriptor, O_RDONLY | dfs_O_DIRECTORY) })
    }
  }

  /// Checks that the calling thread's credentials permit an access (R_OK, W_OK, X_OK) to an entry. (`faccessat2`)
  public func check(_ name: UnsafePointer<CChar>, _ access: CInt) throws(Errno) {
    try systemCall { dfs_check_access(descriptor, name, access) }
  }

  /// Checks that no user is kept from removing an entry. (`statx`)
  ///
  /// - Throws: EPERM for an immutable or append-only entry, as far as the file system reports that; EBUSY for one that something is
  ///   mounted on, from Linux 5.8 on; ENOENT.
  public func checkRemovable(_ name: UnsafePointer<CChar>) throws(Errno) {
    try systemCall { dfs_check_removable(descriptor, name) }
  }

  /// (`mkdirat`)
  public func makeDirectory(_ name: UnsafePointer<CChar>, mode: mode_t) throws(Errno) {
    try systemCall { mkdirat(descriptor, name, mode) }
  }

  /// (`mknodat`)
  public func makeNode(_ name: UnsafePointer<CChar>, mode: mode_t, device: dev_t) throws(Errno) {
    try systemCall { mknodat(descriptor, name, mode, device) }
  }

  /// (`symlinkat`)
  public func makeSymlink(_ name: UnsafePointer<CChar>, to target: UnsafePointer<CChar>) throws(Errno) {
    try systemCall { symlinkat(target, descriptor, name) }
  }

  /// Adds a hard link to an entry. (`linkat` without AT_SYMLINK_FOLLOW)
  public func link(
    _ name: UnsafePointer<CChar>, to target: Directory, _ newName: UnsafePointer<CChar>
  ) throws(Errno) {
    try systemCall { linkat(descriptor, name, target.descriptor, newName, 0) }
  }

  /// (`unlinkat`)
  public func unlink(_ name: UnsafePointer<CChar>) throws(Errno) {
    try systemCall { unlinkat(descriptor, name, 0) }
  }

  /// (`unlinkat`, AT_REMOVEDIR)
  public func removeDirectory(_ name: UnsafePointer<CChar>) throws(Errno) {
    try systemCall { unlinkat(descriptor, name, AT_REMOVEDIR) }
  }

  /// (`renameat2`)
  ///
  /// Many FUSE file systems (bindfs, sshfs) reject every flag with EINVAL. There `noReplace` checks first that the new name is
  /// free. Only a process that works on the backing tree directly can take the name in between.
  public func rename(
    _ name: UnsafePointer<CChar>, to target: Directory, _ newName: UnsafePointer<CChar>,
    _ flags: RenameFlags = []
  ) throws(Errno) {
    do throws(Errno) {
      try systemCall { dfs_renameat(descriptor, name, target.descriptor, newName, flags.rawValue) }
    } catch {
      guard error == .invalidArgument, flags == .noReplace else { throw error }
      do throws(Errno) { _ = try target.status(newName) } catch {
        guard error == .noSuchFileOrDirectory else { throw error }
        try systemCall { dfs_renameat(descriptor, name, target.descriptor, newName, 0) }
        return
      }
      throw .fileExists
    }
  }

  /// Moves an entry to another directory. A directory's `..` changes by that, which needs write permission on the moved directory:
  /// an owner without it has it for the duration of the call.
  public func move(
    _ name: UnsafePointer<CChar>, to target: Directory, _ newName: UnsafePointer<CChar>, _ flags: RenameFlags
  ) throws(Errno) {
    do throws(Errno) { try rename(name, to: target, newName, flags) } catch {
      guard error == .permissionDenied else { throw error }
      try withWritePermission(on: name) { () throws(Errno) in
        guard flags == .exchange else { return try rename(name, to: target, newName, flags) }
        try target.withWritePermission(on: newName) { () throws(Errno) in
          try rename(name, to: target, newName, flags)
        }
      }
    }
  }

  /// Runs `body` while the owner has write permission on an entry that is a directory of the caller.
  private func withWritePermission(
    on name: UnsafePointer<CChar>, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    guard let opened = try? open(name, O_RDONLY | dfs_O_DIRECTORY),
      let mode = try? fileStatus(opened.rawValue).st_mode & 0o7777, mode & S_IWUSR == 0,
      (try? BackingTree.setPermissions(opened.rawValue, mode | S_IWUSR)) != nil
    else { return try body() }
    defer { try? BackingTree.setPermissions(opened.rawValue, mode) }
    try body()
  }

  /// The target of a symlink. (`readlinkat`)
  public func symlinkTarget(_ name: UnsafePointer<CChar>) throws(Errno) -> [UInt8] {
    var capacity = 256
    while true {
      var buffer = [UInt8](repeating: 0, count: capacity)
      let count = try systemCall {
        buffer.withUnsafeMutableBytes {
          readlinkat(descriptor, name, $0.baseAddress!.assumingMemoryBound(to: CChar.self), capacity)
        }
      }
      if count < capacity { return Array(buffer[..<count]) }
      capacity *= 4
    }
  }

  /// Whether an entry of that name exists, whatever it is.
  public func has(_ name: UnsafePointer<CChar>) -> Bool { (try? status(name)) != nil }
}

/// The flags of `renameat2`.
public struct RenameFlags: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }
  public static let noReplace = RenameFlags(rawValue: dfs_RENAME_NOREPLACE)
  public static let exchange = RenameFlags(rawValue: dfs_RENAME_EXCHANGE)
}

/// The birth time of an open file; nil where its file system keeps none. (`statx`, STATX_BTIME)
public func birthTime(_ descriptor: CInt) throws(Errno) -> timespec? {
  var out = timespec()
  let isKnown = try systemCall { dfs_birth_time(descriptor, &out) }
  return isKnown == 1 ? out : nil
}

/// Checks that the calling thread's credentials permit an access (R_OK, W_OK, X_OK) to an open file. (`faccessat2`)
public func checkAccess(to descriptor: CInt, _ access: CInt) throws(Errno) {
  try systemCall { dfs_check_access(descriptor, "", access) }
}

/// The status of an open file. (`fstat`)
public func fileStatus(_ descriptor: CInt) throws(Errno) -> stat {
  var out = stat()
  try systemCall { fstat(descriptor, &out) }
  return out
}
