import BackingTree
import CLinux
import DisplayNames
import Glibc

/// The users who may use a directory, and so see the names that the view shows in it.
///
/// A view that all users may use shows the same names to each of them, and the daemon reads what one of them may not. So text from a
/// file becomes a name only where each user who sees the name may read the file, too.
struct Audience {
  private let directory: Directory
  private let status: stat

  /// - Returns: nil when the directory has no status, as after an I/O error.
  init?(of directory: Directory) {
    guard let status = try? directory.status() else { return nil }
    self.directory = directory
    self.status = status
  }

  /// Whether each of these users may read a file.
  ///
  /// - Parameter path: the path from the directory to the file. It leads through no symlink.
  func mayRead(_ path: [UInt8]) -> Bool {
    let ends = path.indices.filter { path[$0] == UInt8(ascii: "/") } + [path.count]
    return ends.allSatisfy { end in
      let found = Array(path[..<end]).withCName { part -> stat? in
        guard let opened = try? directory.openBeneath(part, dfs_O_PATH) else { return nil }
        return try? fileStatus(opened.rawValue)
      }
      return found.map { mayUse($0, end == path.count ? 4 : 1) } ?? false
    }
  }

  /// - Parameter permission: 4 is read, 1 is search.
  private func mayUse(_ item: stat, _ permission: mode_t) -> Bool {
    let (group, others) = (permission << 3, permission)
    func permits(_ bits: mode_t) -> Bool { item.st_mode & bits == bits }
    /// Whether these users may list the directory, or look up names in it.
    func isOpen(to shift: mode_t) -> Bool { status.st_mode >> shift & 5 != 0 }
    if isOpen(to: 0) { return permits(group | others) }
    let isOfSameOwner = item.st_uid == status.st_uid && permits(permission << 6)
    // With an access list these bits are the mask of all users and groups in it.
    if isOpen(to: 3) {
      return isOfSameOwner && item.st_gid == status.st_gid && permits(group) && !hasAccessList
    }
    return isOfSameOwner || status.st_uid == 0
  }

  private var hasAccessList: Bool {
    var isFound = false
    try? ExtendedAttributes(of: directory.descriptor).forEachName {
      if AccessList.isHeld(by: $0) { isFound = true }
    }
    return isFound
  }
}
