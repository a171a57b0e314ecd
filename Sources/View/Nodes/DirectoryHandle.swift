import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The directory that the mount itself covers, if it lies inside SOURCE.
///
/// To enter it by name would lead into the mount, and from there back to itself without end. It is opened before the mount, so
/// `descriptor` leads to the directory beneath.
package struct CoveredDirectory: ~Copyable, Sendable {
  let parent: FileIdentity
  let name: CName
  let descriptor: Descriptor

  /// - Parameters:
  ///   - parent: the directory that holds the mount point.
  ///   - descriptor: the mount point, opened before the mount.
  package init(parent: FileIdentity, name: Name, descriptor: consuming Descriptor) {
    self.parent = parent
    self.name = CName(name)
    self.descriptor = descriptor
  }
}

/// An open backing directory. It is closed with the last reference to it.
package final class DirectoryHandle: Sendable {
  /// Identifies the directory.
  let identity: FileIdentity
  /// The size of the directory itself when it was opened, in bytes; 0 where that is not known. It may have grown since.
  let sizeAtOpening: Int
  private let descriptor: Descriptor
  private let covered: Covered?
  private let isLocal: Bool

  /// The covered directory, kept by the handle of the directory that holds the mount point.
  final class Covered: Sendable {
    let directory: CoveredDirectory
    /// Nil when the mount point is not known, for example without a mount.
    init?(_ directory: consuming CoveredDirectory?) {
      switch consume directory {
      case .some(let directory): self.directory = directory
      case .none: return nil
      }
    }
  }

  /// - Parameter isLocal: whether the kernel itself implements the directory's file system.
  init(
    adopting descriptor: consuming Descriptor, identity: FileIdentity, covered: Covered?,
    isLocal: Bool = false, sizeAtOpening: Int = 0
  ) {
    self.descriptor = descriptor
    self.sizeAtOpening = sizeAtOpening
    self.isLocal = isLocal
    self.identity = identity
    self.covered = covered.flatMap { $0.directory.parent == identity ? $0 : nil }
  }

  package var directory: Directory { Directory(descriptor: descriptor.rawValue) }

  /// Whether a listing has each name that a lookup finds.
  var listsAllNames: Bool { isLocal }

  var holdsMountPoint: Bool { covered != nil }

  /// Whether an entry is the mount point. Only the directory beneath it may be accessed.
  func isCovered(_ name: UnsafePointer<CChar>) -> Bool {
    guard let covered else { return false }
    return covered.directory.name.equals(name)
  }

  /// The status of an entry. Where another file system is mounted it may be outdated: a directory is inspected on behalf of all
  /// clients, and none of them waits for a file system that does not respond. (`statx`)
  func status(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    if let covered, isCovered(name) { return try fileStatus(covered.directory.descriptor.rawValue) }
    return isLocal ? try directory.cachedStatus(name) : try directory.status(name)
  }

  /// The current status of an entry, even if another file system is mounted there. (`fstatat`)
  func latestStatus(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    let known = try status(name)
    let isLatest = !isLocal || !isMounted(known) || isCovered(name) || known.isOnNumberedSubvolume
    return isLatest ? known : try directory.status(name)
  }

  /// Whether an entry with that status is on another file system, which is mounted there.
  func isMounted(_ status: stat) -> Bool { UInt64(status.st_dev) != identity.device }

  /// (`openat`, O_PATH)
  func locate(_ name: UnsafePointer<CChar>) throws(Errno) -> Descriptor {
    if let covered, isCovered(name) {
      return Descriptor(adopting: try systemCall { dup(covered.directory.descriptor.rawValue) })
    }
    return try directory.locate(name)
  }

  /// (`openat`, O_PATH | O_DIRECTORY)
  func subdirectory(_ name: UnsafePointer<CChar>) throws(Errno) -> Descriptor {
    isCovered(name) ? try locate(name) : try directory.subdirectory(name)
  }
}

/// The most recently used directories, by node. It bounds the number of descriptors, whatever the number of nodes.
final class DirectoryHandleCache: Sendable {
  private let limit: Int
  private let handles = Guarded(RecentlyUsed<DirectoryHandle>())

  init(limit: Int) { self.limit = limit }

  func handle(of id: NodeID) -> DirectoryHandle? { handles.withLock { $0.use(id) } }

  func insert(_ handle: DirectoryHandle, for id: NodeID) {
    handles.discard { handles -> (DirectoryHandle?, [DirectoryHandle]) in
      let replaced = handles.insert(handle, for: id)
      let surplus = handles.count > limit ? handles.removeOldest(limit / 4) : []
      return (replaced, surplus)
    }
  }

  func removeAll() { handles.discard { $0.removeAll() } }

  func remove(_ id: NodeID) { handles.discard { $0.remove(id) } }
}
