import BackingTree
import CLinux
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// The result of opening a node.
package enum Opened {
  case file(OpenFile)
  case package(OpenPackage)
}

extension View {
  /// Whether a node is a package that is shown as a file.
  package func isPackageFile(_ id: NodeID) -> Bool { nodes.isPackageFile(id) }

  /// Opens a node that is not a directory. Waits until the holder of a lease on the file gives it up, unless the client passes
  /// O_NONBLOCK.
  ///
  /// - Parameter isInterrupted: whether the client has abandoned the request.
  package func open(
    node id: NodeID, flags: CInt, client: Client, isInterrupted: () -> Bool = { false }
  ) throws(Errno) -> Opened {
    guard nodes.isPackageFile(id), let link = nodes.link(of: id) else {
      return .file(
        try LeaseBreak.retry(flags, isInterrupted) { () throws(Errno) in
          try open(id, flags: flags, client: client)
        })
    }
    // The stream is made of what the directory holds: a package is replaced as a whole or changed inside, never written as a
    // file.
    guard flags & O_ACCMODE == O_RDONLY else { throw .permissionDenied }
    try ensureDescriptorsLeft()
    let parent = try directory(link.parent).directory
    let package = try link.name.withPointer { (name) throws(Errno) in
      try client.impersonate { () throws(Errno) in try parent.open(name, O_RDONLY | dfs_O_DIRECTORY) }
    }
    return .package(try openPackage(package, at: link, id, client))
  }

  private func openPackage(
    _ package: consuming Descriptor, at link: NodeTable.Link, _ id: NodeID, _ client: Client
  ) throws(Errno) -> OpenPackage {
    let (status, name) = (try link.status(of: package), link.name.name)
    let type = inspector.typeIdentifier(of: name)
    let isInPlace: @Sendable () -> Bool = { [unowned self] in holds(link.parent, link.name, link) }
    let directory = Directory(descriptor: package.rawValue)
    let credentials = client.credentials
    let known = packages.sizes.beginning(of: directory, status, type: type).flatMap {
      OpenPackage.reader($0, directory, credentials)
    }
    let walked =
      known == nil
      ? Result { () throws(Errno) in
        try OpenPackage.walk(directory, name, type: type, credentials, packages.sizes)
      } : nil
    // A package that was moved away while it was walked may have been emptied, as one that is replaced as a whole. The kernel looks
    // up what has its name now.
    if walked != nil, !isInPlace() { throw .staleNFSFileHandle }
    return OpenPackage(
      package, name: name, type: type, node: id, credentials: credentials, beginning: known,
      walked: try walked?.get(),
      isInPlace: isInPlace, sizes: packages.sizes, logger: logger)
  }

  /// Opens a backing file, and verifies that it is the node's file before anything is done to it.
  func open(_ id: NodeID, flags: CInt, client: Client) throws(Errno) -> OpenFile {
    if flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0 { try refuseAltering(id) }
    let file = try openChecked(id, flags: flags, client: client)
    if flags & O_TRUNC != 0 {
      try retryingAfterRelease { () throws(Errno) in try empty(file.descriptor, flags, client) }
    }
    openNodes.insert(file)
    return file
  }

  /// Empties a file that a client opens with these flags, O_TRUNC among them. Only a descriptor for writing can be truncated, but
  /// with O_RDONLY a file is emptied, too. (open(2))
  func empty(_ file: borrowing Descriptor, _ flags: CInt, _ client: Client) throws(Errno) {
    // With the client's credentials: whether truncation drops the set-user-ID bit depends on them.
    try client.impersonate { () throws(Errno) in
      if flags & O_ACCMODE == O_RDONLY {
        let writable = try file.opened(O_WRONLY | O_NONBLOCK)
        try setSize(writable.rawValue, 0)
      } else {
        try setSize(file.rawValue, 0)
      }
    }
  }

  private func openChecked(_ id: NodeID, flags: CInt, client: Client) throws(Errno) -> OpenFile {
    try ensureDescriptorsLeft()
    return try retryingAfterRelease { () throws(Errno) in try openOnce(id, flags: flags, client: client) }
  }

  private func openOnce(_ id: NodeID, flags: CInt, client: Client) throws(Errno) -> OpenFile {
    // Execution needs no read permission of the client, so the daemon opens the file with its own credentials. The kernel has
    // checked the permission to execute.
    let isExecution = flags & 0x20 /* FMODE_EXEC */ != 0
    let backing = backingFlags(flags) & ~0x20
    let link = nodes.link(of: id)
    var inPlace: OpenFile?
    if let link {
      do throws(Errno) {
        let parent = try directory(link.parent).directory
        let found = try link.name.withPointer { (name) throws(Errno) in
          if isExecution { return try parent.open(name, backing) }
          do throws(Errno) {
            return try client.impersonateWithAnySetID { () throws(Errno) in try parent.open(name, backing) }
          } catch {
            // A client may open anew what it has open, as through `/proc/self/fd`, in a directory that it may not search.
            guard error == .permissionDenied, openNodes.file(of: id) != nil else { throw error }
            let located = try parent.open(name, dfs_O_PATH | O_NOFOLLOW)
            return try client.impersonateWithAnySetID { () throws(Errno) in try located.opened(backing) }
          }
        }
        let status = try fileStatus(found.rawValue)
        if link.matches(status) {
          let isFlushNeeded = link.name.withPointer { needsFlush($0, status, flags) }
          let file = opened(found, id, flags, status, needsFlush: isFlushNeeded, client)
          if hasCurrentName(id, link, client) {
            walks.retries.clearRefusal(client.thread)
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
      walks.retries.isRetry(id, by: client.thread) || link == nil && client.thread == 0
    else { try refuse([id], client) }
    if let inPlace { return inPlace }
    guard let open = openNodes.file(of: id) else { throw .staleNFSFileHandle }
    let again = try open.descriptor.opened(backing)
    let status = try fileStatus(again.rawValue)
    return opened(again, id, flags, status, needsFlush: true, client)
  }

  /// Whether a file of that name must be examined, or written out, when a client that may have written it closes it. If not,
  /// the kernel sends no FLUSH, which saves a request per close.
  ///
  /// - Parameter flags: those with which the client opens the file.
  func needsFlush(_ name: UnsafePointer<CChar>, _ status: stat, _ flags: CInt) -> Bool {
    if flags & O_ACCMODE == O_RDONLY { return false }
    if UInt64(status.st_dev) != source.device || !source.fileSystem.completesWritesBeforeClose { return true }
    return !isPlainMirror
      && (inspector.mayDecideListing(name) || packages.areImported && inspector.mayBecomePackage(name))
  }

  /// - Parameters:
  ///   - file: a backing file that was opened for a client.
  ///   - needsFlush: whether the kernel is to send FLUSH; has an effect only for a file that is opened for writing.
  func opened(
    _ file: consuming Descriptor, _ node: NodeID, _ flags: CInt, _ status: stat, needsFlush: Bool,
    _ client: Client
  ) -> OpenFile {
    let kind = UInt64(status.st_dev) == source.device ? source.fileSystem : FileSystemKind(of: file.rawValue)
    // Another hard link may lie in a directory that is not watched.
    let hasReliableVersion =
      kind.updatesTimesOfMappedWrites && source.coherence.mode == .watch && status.st_nlink == 1
      && UInt64(status.st_dev) == source.device
    return OpenFile(
      descriptor: file, node: node, flags: flags, status: status, hasReliableVersion: hasReliableVersion,
      needsFlush: needsFlush, fileSystem: kind,
      opener: DataCredentials(user: client.user, group: client.group), thread: client.thread)
  }

  /// The client in the name of which the data of a WRITE request is written.
  ///
  /// - Parameters:
  ///   - isPage: whether the kernel writes back pages of a mapping (FUSE_WRITE_CACHE): then the request names no client.
  ///   - client: the client that the request names.
  package func writer(of file: OpenFile, isPage: Bool, client: Client) -> Client {
    isPage ? openNodes.pageWriter(of: file).client(umask: client.umask) : client
  }

  /// Allocates space for a file. (`fallocate`)
  ///
  /// Space allocated before the backing file system failed stays, and has made the file longer (ext4, a full disk). No event
  /// reports that, and the kernel keeps the attributes that it knows. (`fuse_file_fallocate`)
  package func allocate(
    _ file: OpenFile, mode: CInt, offset: off_t, length: off_t, client: Client
  ) throws(Errno) {
    do throws(Errno) {
      try client.impersonate { () throws(Errno) in
        _ = try systemCall { dfs_fallocate(file.descriptor.rawValue, mode, offset, length) }
      }
    } catch {
      cached.kernel?.expireAttributes(of: file.node, in: nil)
      throw error
    }
  }

  /// Called when a client closes a file that it may have written: brings up to date what depends on the file's content.
  package func closing(_ file: OpenFile, client: Client) {
    guard file.mayWrite, let link = nodes.link(of: file.node) else { return }
    // The watch reports the change only when the daemon's own descriptor is closed, some time after this.
    let isHiddenList = link.name.withPointer { (name) in
      if inspector.mayDecideListing(name) {
        currentView(of: link.parent)?.watched.changes.note(.content(name, isOwn: true))
      }
      return EntryInspector.isHiddenList(name)
    }
    // Names that the list hides from now on must not be reached through cached dentries.
    if isHiddenList, options.hidden == .deny {
      cached.directory(link.parent).map { invalidateAllNames(in: [$0], waits: true) }
    }
    importPackage(file, client: client)
  }

  /// Called when the kernel has released a file (RELEASE). If it may have been written, `finishImport` must follow once its
  /// descriptor is closed.
  package func close(_ file: OpenFile) {
    // Must precede `openNodes.remove`: after that only the recorded ctime shows that the file was written through the mount.
    if file.mayWrite {
      changes.own.note(file.descriptor.rawValue)
      unlinkedNodes.noteClosed(file)
    }
    openNodes.remove(file)
  }
}
