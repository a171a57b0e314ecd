import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The directory that the mount itself covers, when it lies inside SOURCE.
///
/// Going into it by name would lead into the mount, and from there round in circles. It was opened before there was a
/// mount, so what is reached through `descriptor` is the directory beneath.
public struct CoveredDirectory: ~Copyable, Sendable {
  let parent: FileIdentity
  let name: CName
  let descriptor: Descriptor

  /// - Parameters:
  ///   - parent: the directory that holds the mount point.
  ///   - descriptor: the mount point, opened before the mount.
  public init(parent: FileIdentity, name: Name, descriptor: consuming Descriptor) {
    self.parent = parent
    self.name = CName(name)
    self.descriptor = descriptor
  }
}

/// An open backing directory, closed when nobody uses it any more.
public final class DirectoryHandle: Sendable {
  /// Which directory it is.
  let identity: FileIdentity
  private let descriptor: Descriptor
  private let covered: Covered?
  private let isLocal: Bool

  /// Shared by the one handle whose directory holds the mount point.
  final class Covered: Sendable {
    let directory: CoveredDirectory
    /// Nil when the mount point is not known, as without a mount.
    init?(_ directory: consuming CoveredDirectory?) {
      switch consume directory {
      case .some(let directory): self.directory = directory
      case .none: return nil
      }
    }
  }

  /// - Parameter isLocal: whether the kernel serves the directory's file system by itself.
  init(
    adopting descriptor: consuming Descriptor, identity: FileIdentity, covered: Covered?,
    isLocal: Bool = false
  ) {
    self.descriptor = descriptor
    self.isLocal = isLocal
    self.identity = identity
    self.covered = covered.flatMap { $0.directory.parent == identity ? $0 : nil }
  }

  public var directory: Directory { Directory(descriptor: descriptor.rawValue) }

  var holdsMountPoint: Bool { covered != nil }

  /// Whether an entry is the mount point, of which only the directory beneath may be touched.
  func isCovered(_ name: UnsafePointer<CChar>) -> Bool {
    guard let covered else { return false }
    return covered.directory.name.equals(name)
  }

  /// The status of an entry, but where another file system is mounted not always its latest: a directory is looked at for all
  /// clients, and none of them waits for a file system that has stopped. (`statx`)
  func status(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    if let covered, isCovered(name) { return try fileStatus(covered.directory.descriptor.rawValue) }
    return isLocal ? try directory.knownStatus(name) : try directory.status(name)
  }

  /// The latest status of an entry, also of a file system that is mounted there. (`fstatat`)
  func latestStatus(_ name: UnsafePointer<CChar>) throws(Errno) -> stat {
    let known = try status(name)
    return isLocal && isMounted(known) && !isCovered(name) ? try directory.status(name) : known
  }

  /// Whether an entry of that status is another file system, mounted there.
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

/// The directories used last, by node: a bounded number of descriptors, whatever the number of nodes.
final class DirectoryHandleCache: Sendable {
  private let limit: Int
  private let handles = Guarded(RecentlyUsed<DirectoryHandle>())

  init(limit: Int) { self.limit = limit }

  func handle(of id: NodeID) -> DirectoryHandle? { handles.withLock { $0.use(id) } }

  func insert(_ handle: DirectoryHandle, for id: NodeID) {
    handles.discard { handles -> (DirectoryHandle?, [DirectoryHandle]) in
      let replaced = handles.insert(handle, for: id)
      let surplus = handles.count > limit ? handles.removeOldest(limit / 4).map(\.value) : []
      return (replaced, surplus)
    }
  }

  func removeAll() { handles.discard { $0.removeAll() } }

  func remove(_ id: NodeID) { handles.discard { $0.remove(id) } }
}
