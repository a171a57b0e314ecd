import CLinux
import Glibc
import SystemPackage

/// What NFS servers and open_by_handle_at(2) know a file of a mount by. Opening one needs root.
struct FileHandle {
  private var raw = dfs_handle()
  private let mountPoint: String

  /// - Parameters:
  ///   - path: relative to the mount point. No symlink is followed.
  init(_ path: String, of mountPoint: String) throws {
    self.mountPoint = mountPoint
    if dfs_handle_of(AT_FDCWD, "\(mountPoint)/\(path)", &raw) != 0 { throw Errno(rawValue: errno) }
  }

  /// An open descriptor of the file, which the caller closes.
  func open(_ flags: CInt) throws -> CInt {
    let mount = try OpenFile(mountPoint, O_RDONLY | dfs_O_DIRECTORY)
    var raw = raw
    let opened = dfs_open_handle(mount.descriptor, &raw, flags)
    if opened < 0 { throw Errno(rawValue: errno) }
    return opened
  }

  var status: stat {
    get throws {
      let opened = try open(dfs_O_PATH)
      defer { close(opened) }
      var result = stat()
      if fstat(opened, &result) != 0 { throw Errno(rawValue: errno) }
      return result
    }
  }

  var text: String {
    get throws {
      let opened = try open(O_RDONLY)
      defer { close(opened) }
      var buffer = [UInt8](repeating: 0, count: 4096)
      let length = read(opened, &buffer, buffer.count)
      if length < 0 { throw Errno(rawValue: errno) }
      return String(decoding: buffer.prefix(length), as: UTF8.self)
    }
  }
}
