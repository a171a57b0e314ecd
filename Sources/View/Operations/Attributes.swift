import BackingTree
import CLinux
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// The attributes that a client requests to change; nil leaves an attribute unchanged.
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

/// The attributes of a node for a reply to the kernel.
public struct LeasedAttributes {
  public var stat: stat
  /// The lease under which the kernel may cache the attributes; nil when it must not.
  public let lease: CacheLease?
}

extension View {
  /// The status of a node as the view shows it.
  public func attributes(_ id: NodeID) throws(Errno) -> stat {
    let location = id == NodeTable.root ? nil : nodes.location(of: id)
    let (status, _) = try status(of: id, at: location)
    guard let location, location.facet == .packageFile else { return present(status) }
    let parent = try directory(location.parent).directory
    return try location.name.withPointer { (name) throws(Errno) in
      try present(status, facet: .packageFile, name: name, in: parent)
    }
  }

  /// The status of a node as the view shows it, with a lease if the kernel may cache it.
  public func leasedAttributes(_ id: NodeID) throws(Errno) -> LeasedAttributes {
    guard let location = nodes.location(of: id), location.facet == .plain else {
      return LeasedAttributes(stat: try attributes(id), lease: nil)
    }
    // A directory's attributes change with its contents, so its own watch reports them. The watch on the parent reports those of
    // other files.
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

  /// The backing status of a node, checked to be of the file that the node stands for, and whether the file is still where the
  /// node table has it.
  ///
  /// - Parameter parent: the directory that holds it, if the calling code has it open.
  /// - Throws: ESTALE when the file is gone, or when the node stands for a file of another type.
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
    // The name is gone, or leads to another file now.
    let status = try statusWithoutName(of: id)
    // Attributes of another file type make the kernel mark the inode bad for good. (EIO, `fuse_make_bad`)
    guard FileType(mode: status.st_mode) == nodes.type(of: id) else { throw .staleNFSFileHandle }
    return (status, false)
  }

  /// The status of a file that its name does not lead to any more: from a descriptor that is still open, else as of the removal
  /// of the name.
  ///
  /// - Throws: ESTALE when there is neither.
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
    // A package has no content of its own to truncate: it is replaced as a whole, or changed inside its directory.
    if isPackage, change.size != nil { throw .permissionDenied }
    let change = isPackage ? try news(of: change, to: id) : change
    // For ftruncate(2) the kernel sends the file handle. Any other change may have come by a name.
    let located = try locate(id, byNameOf: file == nil ? caller : nil, isDataChanged: change.size != nil)
    let path = "/proc/self/fd/\(located.rawValue)"
    // Use the client's credentials although the kernel has checked permissions: for an open file it checks the attributes that it
    // last received, and the file may have another owner since.
    try ownChanges.make(on: located.rawValue) { () throws(Errno) in
      if change.user != nil || change.group != nil {
        _ = try caller.act { () throws(Errno) in
          try systemCall {
            fchownat(located.rawValue, "", change.user ?? uid_t.max, change.group ?? gid_t.max, 0x1000)
          }
        }
      }
      if let mode = change.mode {
        // Search permission follows read permission: without it the package could not be read.
        let effective = isPackage ? (mode & ~0o111) | ((mode & 0o444) >> 2) : mode
        let lost = try fileStatus(located.rawValue).st_mode & 0o7777 ^ effective & 0o7777
        if lost & ~effective & (S_ISUID | S_ISGID) == lost {
          // Only set-ID bits are cleared. Any write to a file clears them, whether or not the writer owns the file: use the
          // daemon's credentials.
          _ = try Caller.daemon.act { () throws(Errno) in try systemCall { chmod(path, effective & 0o7777) } }
        } else {
          _ = try caller.actForMode(mode) { () throws(Errno) in
            try systemCall { chmod(path, effective & 0o7777) }
          }
        }
      }
      if let size = change.size {
        // Whether truncation clears set-user-ID bits depends on the credentials of the thread that truncates.
        if let file {
          try caller.act { () throws(Errno) in try setSize(file.descriptor.rawValue, size) }
        } else {
          // truncate(2) would block the worker until the holder of a lease gives it up.
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

  /// The part of a change that differs from what the view shows of a package.
  ///
  /// A program that copies a package gives the copy the mode and time of the original. The view derives both from the package's
  /// parts, and the package stream has already transferred those more exactly.
  private func news(of change: AttributeChange, to id: NodeID) throws(Errno) -> AttributeChange {
    guard change.mode != nil || change.modified != nil else { return change }
    var news = change
    let shown = try attributes(id)
    if let mode = change.mode, mode & 0o7777 == shown.st_mode & 0o7777 {
      // A directory that may be read but not searched is shown as if it could be searched.
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

  /// A descriptor that serves only to identify the node, checked to be of the right file.
  ///
  /// - Parameters:
  ///   - caller: the client, for an operation that may have come by a name. The node must still have that name.
  ///   - isDataChanged: false for an operation that a client with the node open may have requested on its descriptor (fchmod(2),
  ///     futimens(2)): the kernel does not report which.
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
    // Refuse also a node that has no name any more: the kernel may still have a dentry that leads to it.
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

  /// Whether a client's request may refer to a file that it has open, rather than to a name. Where the client's system call
  /// cannot be seen, it may if the client's process has opened the node.
  func mayMeanOpenFile(_ id: NodeID, _ caller: Caller) -> Bool {
    switch dfs_reference_of(caller.process) {
    case DFS_BY_DESCRIPTOR: true
    case DFS_BY_NAME: false
    default: openNodes.isOpen(id, in: caller)
    }
  }

  /// Whether a client that gave a name gave one that the node has: the node has lost no name that the kernel may still resolve.
  func isReachedByItsName(_ id: NodeID, _ location: NodeTable.Location, _ caller: Caller) -> Bool {
    !hasLeftOtherPlace(id, location) && !movedNodes.mayHaveComeByOldName(id, caller.process)
  }

  /// A backing status as the view shows it, of anything but a package that is a file.
  func present(_ status: stat) -> stat {
    var out = status
    out.st_ino = inodeNumber(FileIdentity(status), .plain)
    return out
  }

  /// The backing status of `name` in `directory` as the view shows it.
  ///
  /// - Throws: EINTR when the walk of a package was interrupted.
  func present(
    _ status: stat, facet: Facet, name: UnsafePointer<CChar>, in directory: Directory
  ) throws(Errno) -> stat {
    guard facet == .packageFile else { return present(status) }
    var out = status
    out.st_ino = inodeNumber(FileIdentity(status), facet)
    out.st_mode = S_IFREG | (status.st_mode & 0o666)
    out.st_nlink = 1
    let measure = try packageSizes.measure(
      name, in: directory, type: inspector.typeIdentifier(of: Name(copying: name)))
    out.st_size = off_t(measure.size)
    out.st_blocks = blkcnt_t((measure.size + 511) / 512)
    out.st_mtim = measure.newest
    return out
  }

  /// The inode number in the view: the backing inode number, made unique for package files (bit 62 is set) and for files on
  /// another device than SOURCE (the number is mixed with the device).
  func inodeNumber(_ identity: FileIdentity, _ facet: Facet) -> UInt {
    var number = identity.inode
    if identity.device != rootDevice {
      number ^= (identity.device &* 0x9e37_79b9_7f4a_7c15) & 0x3fff_0000_0000_0000
    }
    if facet == .packageFile { number ^= 1 << 62 }
    return UInt(number)
  }

  /// The free space and the limits of the file system that holds a node.
  public func fileSystemStatus(_ id: NodeID) throws(Errno) -> statvfs {
    let located = try locate(id)
    var out = statvfs()
    try systemCall { fstatvfs(located.rawValue, &out) }
    return out
  }

  /// The target of a symlink, unchanged.
  public func symlinkTarget(_ id: NodeID) throws(Errno) -> [UInt8] {
    let located = try locate(id)
    return try Directory(descriptor: located.rawValue).symlinkTarget("")
  }
}

extension timespec {
  /// Whether this time is a copy of `original`: exact to the nanosecond, rounded as a floating-point number (Python), or
  /// truncated to the one or two seconds that an archive or a FAT file system stores.
  func isCopy(of original: timespec) -> Bool {
    let (seconds, overflow) = original.tv_sec.subtractingReportingOverflow(tv_sec)
    guard !overflow, (-1...2).contains(seconds) else { return false }
    let difference = seconds * 1_000_000_000 + original.tv_nsec - tv_nsec
    return abs(difference) < 1000 || tv_nsec == 0 && (0..<2_000_000_000).contains(difference)
  }
}
