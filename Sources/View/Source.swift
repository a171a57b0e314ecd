import BackingTree
import Glibc
import SystemPackage

/// The directory that a view shows, and what is known of the file system that it is on.
package struct Source: Sendable {
  let root: DirectoryHandle
  /// The mount point, which is never entered from below; nil where there is none.
  let covered: DirectoryHandle.Covered?
  package let fileSystem: FileSystemKind
  package let coherence: Coherence
  /// By what the files of an exported view are found again; nil where the view is not exported.
  let handles: InodeHandles?
  let search = FileSearch()
  /// Whether the top directory has an SELinux label.
  let isLabelled: Bool

  var identity: FileIdentity { root.identity }
  var device: UInt64 { root.identity.device }

  /// The path of the directory, as the kernel knows it now; nil where it knows none.
  var path: FilePath? { FilePath(ofOpenFile: root.directory.descriptor) }

  /// - Throws: EOPNOTSUPP for an exported view where files cannot be found by handles that fit into a nodeid.
  init(
    _ directory: consuming Descriptor, covered: consuming CoveredDirectory?, coherence: Coherence,
    isExported: Bool
  ) throws(Errno) {
    handles = isExported ? InodeHandles(of: Directory(descriptor: directory.rawValue)) : nil
    if isExported, handles == nil { throw Errno(rawValue: EOPNOTSUPP) }
    let status = try fileStatus(directory.rawValue)
    self.covered = DirectoryHandle.Covered(covered)
    fileSystem = FileSystemKind(of: directory.rawValue)
    root = DirectoryHandle(
      adopting: directory, identity: FileIdentity(status), covered: self.covered, isLocal: fileSystem.isLocal,
      sizeAtOpening: Int(status.st_size))
    isLabelled =
      ExtendedAttributes(of: root.directory.descriptor).value(View.label, limit: 4096) != nil
    self.coherence = coherence.resolved(for: root.directory, on: fileSystem)
  }

  /// The birth of a directory, where it has to distinguish it from a removed one that had its inode number, or of a subvolume that
  /// may have the device number of a deleted one; otherwise unknown. That of other files does not matter: no name is looked up in
  /// them.
  func birth(of status: stat) -> Birth {
    guard FileType(mode: status.st_mode) == .directory else { return .unknown }
    return isSubvolume(status) || fileSystem.distinguishesFilesByBirth && UInt64(status.st_dev) == device
      ? Birth(status) : .unknown
  }

  /// Whether a directory is the root of a subvolume: its inode number is 256 then (BTRFS_FIRST_FREE_OBJECTID). Before Linux 6.10,
  /// none is known to be one.
  func isSubvolume(_ status: stat) -> Bool {
    fileSystem.hasSubvolumes && status.isOnNumberedSubvolume && status.st_ino == 256
      && UInt64(status.st_dev) != device
  }

  /// Whether the kernel itself implements the file system of a directory, as far as is known without a request to a server.
  func isLocal(_ status: stat, in parent: DirectoryHandle) -> Bool {
    let device = UInt64(status.st_dev)
    return fileSystem.isLocal && device == self.device
      || parent.listsAllNames && (device == parent.identity.device || isSubvolume(status))
  }
}
