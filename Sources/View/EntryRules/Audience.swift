import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The users that may use a directory, and so see the names that the view shows in it.
///
/// A view that all users may use shows the same names to each of them, and its daemon reads what one of them may not. So text from
/// a file becomes a name only where all users that can see the name may read the file, too. A file with an access list counts as read
/// by all only in a directory that its owner alone may use.
struct Audience: Equatable {
  private let owner: uid_t
  private let group: gid_t
  private let mode: mode_t
  private let hasAccessList: Bool

  /// The audience of a directory; nil when it has no status, as after an I/O error.
  init?(of directory: Directory) {
    guard let status = try? directory.status() else { return nil }
    self.init(status, of: directory.descriptor)
  }

  private init(_ status: stat, of descriptor: CInt) {
    (owner, group, mode) = (status.st_uid, status.st_gid, status.st_mode)
    do throws(Errno) {
      var isFound = false
      try ExtendedAttributes(of: descriptor).forEachName { if AccessList.isHeld(by: $0) { isFound = true } }
      hasAccessList = isFound
    } catch { hasAccessList = error != .notSupported }
  }

  /// Whether each of these users may read a file.
  ///
  /// - Parameters:
  ///   - path: the path from the directory to the file. It leads through no symlink.
  ///   - directory: the directory with this audience.
  func mayRead(_ path: [UInt8], in directory: Directory) -> Bool {
    let ends = path.indices.filter { path[$0] == UInt8(ascii: "/") } + [path.count]
    return ends.allSatisfy { end in
      let item = Array(path[..<end]).withCName { part -> Audience? in
        guard let opened = try? directory.locateBeneath(part) else { return nil }
        return (try? fileStatus(opened.rawValue)).map { Audience($0, of: opened.rawValue) }
      }
      return item.map { mayUse($0, end == path.count ? 4 : 1) } ?? false
    }
  }

  /// - Parameter permission: 4 is read, 1 is search.
  private func mayUse(_ item: Audience, _ permission: mode_t) -> Bool {
    func permits(_ bits: mode_t) -> Bool { item.mode & bits == bits }
    /// Whether the directory may be listed, or names in it be looked up.
    func isOpen(to shift: mode_t) -> Bool { mode >> shift & 5 != 0 }
    let isOfSameOwner = item.owner == owner && permits(permission << 6)
    if isOpen(to: 0) { return permits(permission << 3 | permission) && !item.hasAccessList }
    // With an access list, these bits are the mask of all users and groups in it.
    if isOpen(to: 3) {
      return isOfSameOwner && item.group == group && permits(permission << 3)
        && !hasAccessList && !item.hasAccessList
    }
    return isOfSameOwner || owner == 0
  }
}
