import Glibc
import SystemPackage

/// The rights of a client on entries that the kernel does not know, so that it has checked no permission: the parts of a package, a
/// sidecar, a file that took a name meanwhile.
///
/// Root's daemon acts on them with the client's credentials and all its groups. Any other daemon has no rights but its own, so for
/// another user's client the status of the entry decides. What that leaves open is refused: what an access list says, or a group
/// that the client may be a member of.
extension Credentials {
  /// Whether a call with these credentials has no more rights than they grant.
  var limitCalls: Bool { Self.isDaemonRoot || user == geteuid() || user == 0 }

  /// Checks the rights that a call with these credentials has not checked.
  ///
  /// - Parameters:
  ///   - access: as of access(2).
  ///   - entry: a descriptor of the entry; O_PATH is enough.
  /// - Throws: EACCES.
  public func checkAccess(_ access: CInt, to entry: CInt) throws(Errno) {
    if limitCalls { return }
    let hasAccessList = AccessList.isPresent(in: ExtendedAttributes(of: entry))
    if !grant(access, to: try fileStatus(entry), hasAccessList: hasAccessList) { throw .permissionDenied }
  }

  /// Checks the right to remove or rename an entry, which a call with these credentials has not checked. Write permission on the
  /// directory has been.
  ///
  /// - Throws: EPERM; the errors of reading the directory's status.
  public func checkRemoval(of entry: stat, from directory: Directory) throws(Errno) {
    if !limitCalls { try DirectoryTree.check(entry, in: directory.status(), self) }
  }

  /// Whether an entry's status shows that these credentials grant access, whatever the supplementary groups are.
  ///
  /// - Parameter hasAccessList: whether the entry has an access list, which may deny a user what the mode grants.
  func grant(_ access: CInt, to status: stat, hasAccessList: Bool) -> Bool {
    func isPermitted(by shift: mode_t) -> Bool { mode_t(access) & ~(status.st_mode >> shift) == 0 }
    if user == 0 { return true }
    if user == status.st_uid { return isPermitted(by: 6) }
    if hasAccessList { return false }
    return isPermitted(by: 3) && (group == status.st_gid || isPermitted(by: 0))
  }

  /// The access that open(2) checks for these flags, as of access(2).
  public static func access(forOpening flags: CInt) -> CInt {
    let reads = flags & O_ACCMODE != O_WRONLY
    let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
    return (reads ? R_OK : 0) | (writes ? W_OK : 0)
  }
}

extension Client {
  /// Opens a regular file as `Directory.openRegular` does, with the client's rights.
  public func openRegular(
    _ path: UnsafePointer<CChar>, in directory: Directory, _ flags: CInt
  ) throws(Errno) -> RegularFile {
    let credentials = credentials
    let file = try credentials.impersonate { () throws(Errno) in try directory.openRegular(path, flags) }
    try credentials.checkAccess(Credentials.access(forOpening: flags), to: file.descriptor.rawValue)
    return file
  }

  /// Checks the rights on an entry of a directory.
  ///
  /// - Parameter access: as of access(2).
  /// - Throws: EACCES; the errors of finding the entry.
  public func check(_ name: UnsafePointer<CChar>, in directory: Directory, _ access: CInt) throws(Errno) {
    let credentials = credentials
    try credentials.impersonate { () throws(Errno) in try directory.check(name, access) }
    if credentials.limitCalls { return }
    let entry = try directory.locate(name)
    try credentials.checkAccess(access, to: entry.rawValue)
  }
}
