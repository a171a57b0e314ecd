import BackingTree
import Glibc
import SystemPackage

/// The permission to open a file that CREATE has found. The kernel took the name for free, so it has checked the directory alone.
enum OpenPermission {
  /// What access(2) has to check for a file that is opened with these flags.
  static func access(for flags: CInt) -> CInt {
    let reads = flags & O_ACCMODE != O_WRONLY
    let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
    return (reads ? R_OK : 0) | (writes ? W_OK : 0)
  }

  /// Whether the status of a file shows that a client may open it, whatever its supplementary groups are.
  ///
  /// - Parameters:
  ///   - access: as of access(2).
  ///   - hasAccessList: whether the file has an access list, which may deny a user what the mode grants.
  static func isCertain(
    _ access: CInt, to status: stat, hasAccessList: Bool, for client: Client
  ) -> Bool {
    func permits(_ shift: mode_t) -> Bool { mode_t(access) & ~(status.st_mode >> shift) == 0 }
    if client.user == 0 { return true }
    if client.user == status.st_uid { return permits(6) }
    if hasAccessList { return false }
    return permits(3) && (client.group == status.st_gid || permits(0))
  }
}

extension View {
  /// Refuses a client that may not open a file with these flags, so far as opening it with the client's credentials has not: a
  /// daemon that is not root opens every file with its own.
  ///
  /// - Throws: ESTALE: the kernel looks the name up again, and checks the file that it finds.
  func checkMayOpen(_ file: CInt, _ flags: CInt, _ client: Client) throws(Errno) {
    guard geteuid() != 0, client.user != geteuid() else { return }
    let isCertain = OpenPermission.isCertain(
      OpenPermission.access(for: flags), to: try fileStatus(file),
      hasAccessList: AccessList.isPresent(in: ExtendedAttributes(of: file)), for: client)
    if !isCertain { throw .staleNFSFileHandle }
  }
}
