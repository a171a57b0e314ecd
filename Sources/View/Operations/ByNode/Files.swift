import BackingTree
import CLinux
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// The result of opening a node.
public enum Opened {
  case file(OpenFile)
  case package(OpenPackage)
}

extension View {
  /// Whether a node is a package that is shown as a file.
  public func isPackageFile(_ id: NodeID) -> Bool { nodes.isPackageFile(id) }

  /// Opens a node that is not a directory. Waits until the holder of a lease on the file gives it up, unless the client passes
  /// O_NONBLOCK.
  ///
  /// - Parameter isInterrupted: whether the client has abandoned the request.
  public func open(
    node id: NodeID, flags: CInt, caller: Caller, isInterrupted: () -> Bool = { false }
  ) throws(Errno) -> Opened {
    guard nodes.isPackageFile(id), let location = nodes.location(of: id) else {
      return .file(
        try LeaseBreak.retry(flags, isInterrupted) { () throws(Errno) in
          try open(id, flags: flags, caller: caller)
        })
    }
    // The stream is made of what the directory holds: a package is replaced as a whole or changed inside, never written as a
    // file.
    guard flags & O_ACCMODE == O_RDONLY else { throw .permissionDenied }
    try refuseTheLastDescriptors()
    let parent = try directory(location.parent).directory
    let package = try location.name.withPointer { (name) throws(Errno) in
      try caller.act { () throws(Errno) in try parent.open(name, O_RDONLY | dfs_O_DIRECTORY) }
    }
    let status = try fileStatus(package.rawValue)
    guard location.isOf(status) else { throw .staleNFSFileHandle }
    let type = inspector.typeIdentifier(of: location.name.name)
    return .package(try openPackage(package, location.name.name, status, type: type, id, caller))
  }

  private func openPackage(
    _ package: consuming Descriptor, _ name: Name, _ status: stat, type: String, _ id: NodeID,
    _ caller: Caller
  ) throws(Errno) -> OpenPackage {
    let directory = Directory(descriptor: package.rawValue)
    let credentials = caller.credentials
    let known = packageSizes.beginning(of: directory, status, type: type).flatMap {
      OpenPackage.reader($0, directory, credentials)
    }
    let reader =
      if let known { known } else {
        try OpenPackage.reader(directory, name, type: type, credentials, packageSizes)
      }
    return OpenPackage(
      package, name: name, type: type, node: id, credentials: credentials, reader: reader,
      isWalked: known == nil, sizes: packageSizes, logger: logger)
  }

  /// Opens a backing file, and verifies that it is the node's file before anything is done to it.
  func open(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    if flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0 { try refuseAltering(id) }
    let file = try openChecked(id, flags: flags, caller: caller)
    // With the client's credentials: whether truncation drops the set-user-ID bit depends on them.
    if flags & O_TRUNC != 0 {
      try caller.act { () throws(Errno) in try setSize(file.descriptor.rawValue, 0) }
    }
    openNodes.opened(file)
    return file
  }

  private func openChecked(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    try refuseTheLastDescriptors()
    return try retryingAfterRelease { () throws(Errno) in try openOnce(id, flags: flags, caller: caller) }
  }

  private func openOnce(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    // Execution needs no read permission of the client, so the daemon opens the file with its own credentials. The kernel has
    // checked the permission to execute.
    let isExecution = flags & 0x20 /* FMODE_EXEC */ != 0
    let backing = backingFlags(flags) & ~0x20
    let location = nodes.location(of: id)
    var inPlace: OpenFile?
    if let location {
      do throws(Errno) {
        let parent = try directory(location.parent).directory
        let found = try location.name.withPointer { (name) throws(Errno) in
          if isExecution { return try parent.open(name, backing) }
          return try caller.actWithoutSetID { () throws(Errno) in try parent.open(name, backing) }
        }
        let status = try fileStatus(found.rawValue)
        if location.isOf(status) {
          let isHeardOf = location.name.withPointer { isHeardOfWhenClosed($0, status) }
          let file = opened(found, id, flags, status, isHeardOfWhenClosed: isHeardOf, caller)
          if isReachedByItsName(id, location, caller) {
            staleNames.goesOn(caller.process)
            return file
          }
          inPlace = file
        }
      } catch {
        // ELOOP: a symlink has taken the file's place, and the kernel sends no OPEN for a symlink.
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory,
          error != .tooManySymbolicLinkLevels
        {
          throw error
        }
      }
    }
    // The client may have come by a name that the file has lost. ESTALE makes the kernel look the path up again. A file is
    // opened without its name only if it is in place or open already, as through `/proc/self/fd`, and the same thread retries
    // without having looked anything up. A thread that the daemon cannot see (0) need not retry where the file has no name
    // left.
    guard inPlace != nil || openNodes.file(of: id) != nil,
      staleNames.isAskedAgain(id, by: caller.process) || location == nil && caller.process == 0
    else { throw .staleNFSFileHandle }
    if let inPlace { return inPlace }
    guard let open = openNodes.file(of: id) else { throw .staleNFSFileHandle }
    let again = try open.descriptor.opened(backing)
    let status = try fileStatus(again.rawValue)
    return opened(again, id, flags, status, isHeardOfWhenClosed: true, caller)
  }

  /// Whether a file of that name must be examined, or written out, when a client that may have written it closes it. If not,
  /// the kernel sends no FLUSH, which saves a request per close.
  func isHeardOfWhenClosed(_ name: UnsafePointer<CChar>, _ status: stat) -> Bool {
    if UInt64(status.st_dev) != rootDevice || !fileSystem.keepsWhatWasWritten { return true }
    return !isPlainMirror
      && (strcmp(name, ".hidden") == 0 || importsPackages && inspector.mayBecomePackage(name))
  }

  /// - Parameters:
  ///   - file: a backing file that was opened for a client.
  ///   - isHeardOfWhenClosed: whether the kernel is to send FLUSH; has an effect only for a file that is opened for writing.
  func opened(
    _ file: consuming Descriptor, _ node: NodeID, _ flags: CInt, _ status: stat, isHeardOfWhenClosed: Bool,
    _ caller: Caller
  ) -> OpenFile {
    let kind = UInt64(status.st_dev) == rootDevice ? fileSystem : FileSystemKind(of: file.rawValue)
    // Another hard link may lie in a directory that is not watched.
    let showsChanges =
      kind.timesMappedWrites && coherence.mode == .watch && status.st_nlink == 1
      && UInt64(status.st_dev) == rootDevice
    return OpenFile(
      descriptor: file, node: node, flags: flags, status: status, showsChanges: showsChanges,
      isHeardOfWhenClosed: isHeardOfWhenClosed, isOnServer: kind.changesUnseen,
      opener: DataIdentity(user: caller.user, group: caller.group), thread: caller.process)
  }

  /// The client in the name of which the data of a WRITE request is written.
  ///
  /// - Parameters:
  ///   - isPage: whether the kernel writes back pages of a mapping (FUSE_WRITE_CACHE): then the request names no client.
  ///   - caller: the client that the request names.
  public func writer(of file: OpenFile, isPage: Bool, caller: Caller) -> Caller {
    isPage ? openNodes.pageWriter(of: file).caller(umask: caller.umask) : caller
  }

  /// Called when a client closes a file that it may have written: brings up to date what depends on the file's content.
  public func closing(_ file: OpenFile, caller: Caller) {
    guard file.mayWrite, let location = nodes.location(of: file.node) else { return }
    // The watch reports the change only when the daemon's own descriptor is closed, some time after this.
    if location.name.equals(".hidden") {
      currentView(of: location.parent)?.noteEverything()
      // Names that the list hides from now on must not be reached through cached dentries.
      if options.hidden == .deny {
        cached.directory(location.parent).map { invalidateAllNames(in: [$0], waits: true) }
      }
    }
    importPackage(file, caller: caller)
  }

  /// Called when the kernel has released a file (RELEASE).
  public func close(_ file: OpenFile) {
    // Must precede `openNodes.closed`: after that only the recorded ctime shows that the file was written through the mount.
    if file.mayWrite { ownChanges.note(file.descriptor.rawValue) }
    openNodes.closed(file)
    if file.mayWrite { settle(file.node) }
  }
}
