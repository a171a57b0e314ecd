import CLinux
import Glibc
import SystemPackage

/// Unmounting one mount and no other, and changing its options.
///
/// umount2(2) and mount(2) take a path, which may lead to another mount by the time of the call: a user may rename a directory above
/// the mount point and put a symlink in its place, and something else may be mounted on top.
extension MountTable.Line {
  /// The mount in its present place; nil when it is gone.
  public var present: MountTable.Line? {
    MountTable.current.first { $0.id == id && $0.device == device && $0.type == type }
  }

  /// Whether no other mount covers it. What takes a path, as fusermount3 does, acts on the one on top.
  public var isTopmost: Bool { MountTable.topmost(at: mountPoint)?.id == id }

  /// Unmounts the mount in its present place. For root. (`umount2`)
  ///
  /// - Parameter isServed: called last. The kernel gives the ID and the device number of a mount that is gone to the next one, so
  ///   a daemon has to look whether its mount still is the one that has them.
  /// - Throws: ENOENT when it is gone; ESTALE when its path leads to another mount; the errors of `umount2`.
  public func unmount(_ flags: CInt, if isServed: () -> Bool = { true }) throws(Errno) {
    let place = try located()
    guard isServed() else { throw .noSuchFileOrDirectory }
    try (Array("/proc/self/fd/\(place.parent.rawValue)/".utf8) + place.name.bytes).withCName {
      (path) throws(Errno) in
      _ = try systemCall { umount2(path, flags | 8 /* UMOUNT_NOFOLLOW */) }
    }
  }

  /// The directory that a mount point is in, and its name there, which can neither be renamed nor removed.
  private struct Place: ~Copyable {
    let parent: Descriptor
    let name: FilePath.Component
  }

  /// - Throws: ENOENT when the mount is gone; ESTALE when its path leads to another mount; the errors of `open`.
  private func located() throws(Errno) -> Place {
    var failure = Errno.noSuchFileOrDirectory
    // A directory above may be renamed between the look at the table of mounts and the open, again and again.
    for _ in 0..<100 {
      guard let path = present?.mountPoint, let name = path.lastComponent else {
        throw .noSuchFileOrDirectory
      }
      do throws(Errno) {
        let parent = Descriptor(
          adopting: try systemCall {
            path.removingLastComponent().withPlatformString {
              dfs_open_without_symlinks($0, dfs_O_PATH | dfs_O_DIRECTORY)
            }
          })
        // It is closed before the call: an open descriptor keeps a mount busy.
        let found = try name.bytes.withCName { (name) throws(Errno) in
          try Self.id(of: Directory(descriptor: parent.rawValue).locate(name))
        }
        if found == id { return Place(parent: parent, name: name) }
        failure = .staleNFSFileHandle
      } catch {
        failure = error == .noSuchFileOrDirectory ? .staleNFSFileHandle : error
      }
      usleep(500)
    }
    throw failure
  }

  /// Changes the options of the mount in its present place. For root. (`mount`, MS_REMOUNT)
  ///
  /// - Throws: ENOENT when it is gone; ESTALE or ELOOP when its path leads to another mount; the errors of `mount`.
  public func remount(_ flags: UInt) throws(Errno) {
    guard let path = present?.mountPoint else { throw .noSuchFileOrDirectory }
    // The mount's root. While it is open no other mount gets the ID.
    let root = Descriptor(
      adopting: try systemCall {
        path.withPlatformString { dfs_open_without_symlinks($0, dfs_O_PATH | dfs_O_DIRECTORY) }
      })
    guard Self.id(of: root) == id, present != nil else { throw .staleNFSFileHandle }
    try Array("/proc/self/fd/\(root.rawValue)".utf8).withCName { (root) throws(Errno) in
      _ = try systemCall { mount(nil, root, nil, flags | UInt(MS_REMOUNT), nil) }
    }
  }

  /// The ID of the mount that a descriptor leads to, from /proc, which takes no request to the mount.
  private static func id(of file: borrowing Descriptor) -> Int? {
    let lines = Directory(descriptor: AT_FDCWD).wholeFile("/proc/self/fdinfo/\(file.rawValue)") ?? []
    let label = Array("mnt_id:\t".utf8)
    return lines.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label) }
      .flatMap { Int(String(decoding: $0.dropFirst(label.count), as: UTF8.self)) }
  }
}
