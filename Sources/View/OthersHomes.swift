import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Of somebody else's home a user sees what is open to everybody, which is `Public` unless its owner decides otherwise
/// ("File System Basics", User Domain). Names still lead where permissions let them.
extension View {
  /// Who a listing of a directory is made for; nil when everybody gets the same.
  func visitor(of directory: DirectoryView, caller: Caller) throws(Errno) -> Caller? {
    guard options.domains == .enforce, directory.lastSite.place.contains(.home), caller.user != 0 else {
      return nil
    }
    return try directory.handle.directory.status().st_uid == caller.user ? nil : caller
  }
}

extension Caller {
  /// Whether this user may open an entry of a directory to read it.
  func mayOpen(_ name: UnsafePointer<CChar>, in directory: Directory) -> Bool {
    guard let status = try? directory.status(name) else { return false }
    let isDirectory = FileType(mode: status.st_mode) == .directory
    if geteuid() != 0, user != geteuid() {
      // The daemon cannot act as somebody else: what the mode says has to do.
      let bits = status.st_mode >> (status.st_uid == user ? 6 : status.st_gid == group ? 3 : 0)
      return bits & (isDirectory ? 5 : 4) == (isDirectory ? 5 : 4)
    }
    let access = R_OK | (isDirectory ? X_OK : 0)
    return
      (try? actAsMember { () throws(Errno) in
        try directory.check(name, access)
      }) != nil
  }
}
