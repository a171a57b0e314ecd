import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// In another user's home, a listing shows a user only what is open to all users, which is `Public` unless the owner decides
/// otherwise ("File System Basics", User Domain). Names that are not listed still lead where permissions let them.
extension View {
  /// The client that a listing of a directory is restricted for; nil when the listing is the same for all clients.
  func restrictedViewer(of directory: DirectoryView, client: Client) throws(Errno) -> Client? {
    guard options.domains == .enforce, directory.lastSite.role.contains(.home), client.user != 0 else {
      return nil
    }
    return try directory.handle.directory.status().st_uid == client.user ? nil : client
  }
}

extension Client {
  /// Whether this user may open an entry of a directory to read it.
  func mayOpen(_ name: UnsafePointer<CChar>, in directory: Directory) -> Bool {
    guard let status = try? directory.status(name) else { return false }
    let isDirectory = FileType(mode: status.st_mode) == .directory
    return (try? check(name, in: directory, R_OK | (isDirectory ? X_OK : 0))) != nil
  }
}
