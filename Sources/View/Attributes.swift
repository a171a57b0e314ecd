import BackingTree
import CFuse
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// What a caller wants changed of a file; nil leaves it alone.
public struct AttributeChange: Sendable {
  public enum Time: Sendable {
    case now
    case at(timespec)
  }
  public var mode: mode_t?
  public var user: uid_t?
  public var group: gid_t?
  public var size: Int64?
  public var accessed: Time?
  public var modified: Time?
  public init() {}
}

/// What the kernel is told of a node.
public struct LeasedAttributes {
  public var stat: stat
  /// Where it may keep that.
  public let lease: CacheLease?
}

extension View {
  /// The status of a node as the view shows it.
  public func attributes(_ id: NodeID) throws(Errno) -> stat {
    let location = id == NodeTable.root ? nil : nodes.location(of: id)
    let (status, _) = try status(of: id, at: location)
    guard let location, location.facet == .packageFile else { return present(status) }
    let parent = try directory(location.parent).directory
    return location.name.withPointer { present(status, facet: .packageFile, name: $0, in: parent) }
  }

  /// The same, for the kernel.
  public func leasedAttributes(_ id: NodeID) throws(Errno) -> LeasedAttributes {
    guard let location = nodes.location(of: id), location.facet == .plain else {
      return LeasedAttributes(stat: try attributes(id), lease: nil)
    }
    // A directory's attributes change with what is in it; those of other files are told of where they are.
    let watched = location.type == .directory ? id : location.parent
    let handle = try? directory(watched)
    let lease: CacheLease? = if let handle { cached.lease(watched, handle) } else { nil }
    let (status, isInPlace) = try status(of: id, at: location, in: watched == id ? nil : handle)
    let attributes = present(status)
    guard let handle, isInPlace,
      watched == id || mayKeepAttributes(of: id, attributes, facet: .plain, in: handle)
    else {
      return LeasedAttributes(stat: attributes, lease: nil)
    }
    return LeasedAttributes(stat: attributes, lease: lease)
  }

  /// The backing status of a node, checked to be the file that the node stands for, and whether that is where it was seen
  /// last.
  ///
  /// - Parameter parent: the directory that it is in, if that is at hand.
  private func status(
    of id: NodeID, at location: NodeTable.Location?, in parent: DirectoryHandle? = nil
  ) throws(Errno) -> (status: stat, isInPlace: Bool) {
    if id == NodeTable.root { return (try rootHandle.directory.status(), true) }
    if let location {
      do throws(Errno) {
        let parent = if let parent { parent } else { try directory(location.parent) }
        let status = try location.name.withPointer { (name) throws(Errno) in try parent.latestStatus(name) }
        if location.isOf(status) { return (status, true) }
      } catch {
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory {
          throw error
        }
      }
    }
    // Its name is gone or stands for another file now.
    let status = try statusWithoutName(of: id)
    // Attributes of another type make the kernel give the inode up for good. (EIO, `fuse_make_bad`)
    guard FileType(mode: status.st_mode) == nodes.type(of: id) else { throw .staleNFSFileHandle }
    return (status, false)
  }

  /// What is open still answers.
  private func statusWithoutName(of id: NodeID) throws(Errno) -> stat {
    if let open = openNodes.file(of: id) { return try fileStatus(open.descriptor.rawValue) }
    if let handle = openHandle(of: id) { return try handle.directory.status() }
    return try unlinkedNodes.status(of: id)
  }

  /// Changes a node's attributes.
  ///
  /// - Parameter isInterrupted: as of `open(node:flags:caller:isInterrupted:)`.
  public func setAttributes(
    _ id: NodeID, _ change: AttributeChange, open file: OpenFile?, caller: Caller,
    isInterrupted: () -> Bool = { false }
  ) throws(Errno) {
    try refuseAltering(id)
    let isPackage = nodes.location(of: id)?.facet == .packageFile
    // A package has no content of its own to cut: it is replaced as a whole or changed inside its directory.
    if isPackage, change.size != nil { throw .permissionDenied }
    let change = isPackage ? try news(of: change, to: id) : change
    // With ftruncate(2) the kernel says which file is open; everything else may have come by a name.
    let located = try locate(id, byNameOf: file == nil ? caller : nil, isDataChanged: change.size != nil)
    let path = "/proc/self/fd/\(located.rawValue)"
    // By the caller, although the kernel has looked whether they may: it believes what it last heard of an open file, and
    // that may be somebody else's since.
    try ownChanges.make(on: located.rawValue) { () throws(Errno) in
      if change.user != nil || change.group != nil {
        _ = try caller.act { () throws(Errno) in
          try systemCall {
            fchownat(located.rawValue, "", change.user ?? uid_t.max, change.group ?? gid_t.max, 0x1000)
          }
        }
      }
      if let mode = change.mode {
        // Search permission follows read permission, or the package could not be read any more.
        let effective = isPackage ? (mode & ~0o111) | ((mode & 0o444) >> 2) : mode
        let lost = try fileStatus(located.rawValue).st_mode & 0o7777 ^ effective & 0o7777
        if lost & ~effective & (S_ISUID | S_ISGID) == lost {
          // Whoever writes to a file takes these bits from it, whosever it is.
          _ = try Caller.daemon.act { () throws(Errno) in try systemCall { chmod(path, effective & 0o7777) } }
        } else {
          _ = try caller.actForMode(mode) { () throws(Errno) in
            try systemCall { chmod(path, effective & 0o7777) }
          }
        }
      }
      if let size = change.size {
        // Whether set-user-ID bits stay depends on who cuts.
        if let file {
          try caller.act { () throws(Errno) in try setSize(file.descriptor.rawValue, size) }
        } else {
          // truncate(2) would hold the worker for as long as the holder of a lease likes.
          try LeaseBreak.retry(0, isInterrupted) { () throws(Errno) in
            try caller.act { () throws(Errno) in
              let opened = try located.opened(O_WRONLY | O_NONBLOCK)
              try setSize(opened.rawValue, size)
            }
          }
        }
      }
      if change.accessed != nil || change.modified != nil {
        let times = [Self.timespec(change.accessed), Self.timespec(change.modified)]
        _ = try caller.act { () throws(Errno) in try systemCall { utimensat(AT_FDCWD, path, times, 0) } }
      }
    }
  }

  /// What of a change is not already shown of a package. Programs that copy give the copy the mode and time of the
  /// original: those are put together from its parts, and have come with the stream more exactly than they are shown.
  private func news(of change: AttributeChange, to id: NodeID) throws(Errno) -> AttributeChange {
    guard change.mode != nil || change.modified != nil else { return change }
    var news = change
    let shown = try attributes(id)
    if let mode = change.mode, mode & 0o7777 == shown.st_mode & 0o7777 {
      // One that may be read but not searched is shown as if it could be.
      let directory = try status(of: id, at: nodes.location(of: id)).status
      if directory.st_mode & (mode & 0o444) >> 2 == (mode & 0o444) >> 2 { news.mode = nil }
    }
    if case .at(let time) = change.modified, time.isCopy(of: shown.st_mtim) { news.modified = nil }
    return news
  }

  private static func timespec(_ time: AttributeChange.Time?) -> timespec {
    switch time {
    case nil: Glibc.timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)  // UTIME_OMIT
    case .now: Glibc.timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)  // UTIME_NOW
    case .at(let value): value
    }
  }

  /// A descriptor that names the node and nothing else, checked to be the right file.
  ///
  /// - Parameters:
  ///   - caller: for an operation that may have come by a name, which must lead to the node still: the client.
  ///   - isDataChanged: false where a client that has the node open may mean what it has open (fchmod(2), futimens(2): the
  ///     kernel does not say).
  /// - Throws: ESTALE when the name may lead to another file by now: the kernel walks the path again.
  func locate(
    _ id: NodeID, byNameOf caller: Caller? = nil, isDataChanged: Bool = true
  ) throws(Errno) -> Descriptor {
    if id == NodeTable.root { return try rootHandle.directory.open(".", dfs_O_PATH) }
    let location = nodes.location(of: id)
    var inPlace: Descriptor?
    if let location {
      do throws(Errno) {
        let parent = try directory(location.parent)
        let found = try location.name.withPointer { (name) throws(Errno) in try parent.locate(name) }
        if location.isOf(try fileStatus(found.rawValue)) {
          if caller.map({ isReachedByItsName(id, location, $0) }) ?? true { return found }
          inPlace = consume found
        }
      } catch {
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory {
          throw error
        }
      }
    }
    // Also where the node is known to have no name any more: the kernel may still have a dentry that leads to it.
    if let caller, isDataChanged || !mayMeanOpenFile(id, caller),
      !staleNames.isAskedAgain(id, by: caller.process), location != nil || caller.process != 0
    {
      throw .staleNFSFileHandle
    }
    if let found = inPlace { return found }
    if let open = openNodes.file(of: id) {
      return Descriptor(adopting: try systemCall { dup(open.descriptor.rawValue) })
    }
    guard let handle = openHandle(of: id) else { return try unlinkedNodes.locate(id) }
    return Descriptor(adopting: try systemCall { dup(handle.directory.descriptor) })
  }

  /// Whether a client may mean a file that it has open, not a name that led to it. Where its system call cannot be seen, its
  /// process is one that has opened the node.
  func mayMeanOpenFile(_ id: NodeID, _ caller: Caller) -> Bool {
    switch dfs_reference_of(caller.process) {
    case DFS_BY_DESCRIPTOR: true
    case DFS_BY_NAME: false
    default: openNodes.isOpen(id, in: caller)
    }
  }

  /// Whether a client that comes by a name has come by one that the node has: it has lost none that the kernel may still
  /// resolve.
  func isReachedByItsName(_ id: NodeID, _ location: NodeTable.Location, _ caller: Caller) -> Bool {
    !hasLeftOtherPlace(id, location) && !movedNodes.mayHaveComeByOldName(id, caller.process)
  }

  /// A backing status as the view shows it.
  func present(
    _ status: stat, facet: Facet = .plain, name: UnsafePointer<CChar>? = nil, in directory: Directory? = nil
  ) -> stat {
    var out = status
    out.st_ino = inodeNumber(FileIdentity(status), facet)
    guard facet == .packageFile, let name, let directory else { return out }
    out.st_mode = S_IFREG | (status.st_mode & 0o666)
    out.st_nlink = 1
    let measure = packageSizes.measure(
      name, in: directory, type: inspector.typeIdentifier(of: Name(copying: name)))
    out.st_size = off_t(measure.size)
    out.st_blocks = blkcnt_t((measure.size + 511) / 512)
    out.st_mtim = measure.newest
    return out
  }

  /// The inode number in the view: the backing one, made unique for package files (a high bit) and for what lies on
  /// another device than SOURCE (mixed with the device).
  func inodeNumber(_ identity: FileIdentity, _ facet: Facet) -> UInt {
    var number = identity.inode
    if identity.device != rootDevice {
      number ^= (identity.device &* 0x9e37_79b9_7f4a_7c15) & 0x3fff_0000_0000_0000
    }
    if facet == .packageFile { number ^= 1 << 62 }
    return UInt(number)
  }

  /// Free space and limits of the file system that a node lies on.
  public func fileSystemStatus(_ id: NodeID) throws(Errno) -> statvfs {
    let located = try locate(id)
    var out = statvfs()
    try systemCall { fstatvfs(located.rawValue, &out) }
    return out
  }

  /// The target of a symlink, as it is stored.
  public func symlinkTarget(_ id: NodeID) throws(Errno) -> [UInt8] {
    let located = try locate(id)
    return try Directory(descriptor: located.rawValue).symlinkTarget("")
  }
}

extension timespec {
  /// Whether a program that gives a copy the time of the original means that time: to the nanosecond, as precise as a
  /// floating-point number (Python), or cut to the one or two seconds that an archive or a FAT file system keeps.
  func isCopy(of original: timespec) -> Bool {
    let (seconds, overflow) = original.tv_sec.subtractingReportingOverflow(tv_sec)
    guard !overflow, (-1...2).contains(seconds) else { return false }
    let difference = seconds * 1_000_000_000 + original.tv_nsec - tv_nsec
    return abs(difference) < 1000 || tv_nsec == 0 && (0..<2_000_000_000).contains(difference)
  }
}
