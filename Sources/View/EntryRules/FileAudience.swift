import BackingTree
import CLinux
import Glibc
import SystemPackage

/// The users that may read and write a file, so far as a copy can have the same: a copy must have no others.
struct FileAudience: Sendable, Equatable {
  let permissions: mode_t
  /// Nil where an access list says what the group may do.
  let group: gid_t?

  init(_ status: stat, _ attributes: borrowing ExtendedAttributes) {
    permissions = status.st_mode & 0o666
    group = AccessList.isPresent(in: attributes) ? nil : status.st_gid
  }

  /// The mode to create a copy with, which is for its owner alone.
  var modeOfNewFile: mode_t { permissions & 0o600 }

  /// Gives a copy, which was made with `modeOfNewFile`, its permissions. Another group gets none, nor do those in an access list
  /// that the copy has inherited.
  func apply(to copy: borrowing Descriptor) throws(Errno) {
    let own = FileAudience(try fileStatus(copy.rawValue), ExtendedAttributes(of: copy.rawValue))
    let mode = group != nil && group == own.group ? permissions : permissions & 0o606
    if mode != modeOfNewFile { _ = try systemCall { fchmod(copy.rawValue, mode) } }
  }
}
