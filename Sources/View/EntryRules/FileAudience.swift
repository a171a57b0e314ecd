import BackingTree
import CLinux
import Glibc
import SystemPackage

/// Who may read and write a file, as far as a copy can have it: a copy must have no other readers.
struct FileAudience: Sendable, Equatable {
  let permissions: mode_t
  /// Nil where an access list says what the group may do.
  let group: gid_t?

  init(_ status: stat, hasAccessList: Bool) {
    permissions = status.st_mode & 0o666
    group = hasAccessList ? nil : status.st_gid
  }

  /// The mode to create a copy with, which is for its owner alone.
  var modeOfNewFile: mode_t { permissions & 0o600 }

  /// Gives a copy, which was made with `modeOfNewFile`, its permissions. Another group gets none, nor do those in an access list
  /// that the copy has inherited.
  func apply(to copy: borrowing Descriptor) throws(Errno) {
    let isSameGroup = try group == fileStatus(copy.rawValue).st_gid && !Self.hasAccessList(copy)
    let mode = isSameGroup ? permissions : permissions & 0o606
    if mode != modeOfNewFile { _ = try systemCall { fchmod(copy.rawValue, mode) } }
  }

  private static func hasAccessList(_ file: borrowing Descriptor) -> Bool {
    ExtendedAttributes(of: file.rawValue).value(AccessList.attribute, limit: 1 << 16) != nil
  }
}
