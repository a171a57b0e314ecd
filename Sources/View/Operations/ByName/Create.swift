import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

/// A regular file that was created or opened by name.
package struct CreatedFile {
  package var entry: Entry
  package let file: OpenFile
}

extension View {
  /// Opens a regular file by name, creating it if there is none. (open with O_CREAT)
  ///
  /// - Parameter isInterrupted: as of `open(node:flags:client:isInterrupted:)`.
  /// - Throws: EEXIST when the name resolves and `flags` holds O_EXCL; EISDIR for a directory; EACCES for a package, which is
  ///   not written as a file, and for a name that `hidden=deny` hides; EPERM in a protected place; ENAMETOOLONG; ESTALE when
  ///   something else has got the name since the lookup: the kernel looks it up again.
  package func create(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, flags: CInt, client: Client,
    isInterrupted: () -> Bool = { false }
  ) throws(Errno) -> CreatedFile {
    // Called once for each request: a second call would refuse the kernel's second try again.
    try refuseIfMoved(parent, client)
    walks.retries.clearRefusal(client.thread)
    return try LeaseBreak.retry(flags, isInterrupted) { () throws(Errno) in
      try ensureDescriptorsLeft()
      // Another process may remove the file each time between the look at the directory and the open.
      for _ in 0..<Self.createAttempts {
        let created = try retryingAfterRelease { () throws(Errno) in
          try createOnce(parent, name, mode: mode, flags: flags, client: client)
        }
        if let created { return created }
      }
      throw .staleNFSFileHandle
    }
  }

  private static let createAttempts = 8

  /// - Returns: nil when the file that the name stood for has just been removed.
  private func createOnce(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, flags: CInt, client: Client
  ) throws(Errno) -> CreatedFile? {
    var made: CName?
    // Deferred until no directory view is locked.
    defer { made?.withPointer { noteMarker($0, in: parent) } }
    return try preparing(name, in: parent) { (name) throws(Errno) -> CreatedFile? in
      if let existing = name.entry, flags & O_EXCL == 0 {
        return try openExisting(existing, in: name.directory, flags: flags, client: client)
      }
      try refuseMaking(.file, name)
      let (directory, view) = (name.directory.handle, name.directory.view)
      let typed = name.typed
      let tunnelled = recall(typed, in: parent, client: client)
      guard
        case .create(let real, let exclusive) = CreatePlan.file(
          typed: typed, tunnelled: tunnelled?.realName, in: destination(name.directory))
      else { throw .fileNameTooLong }
      let realName = CName(real)
      let mustBeNew = exclusive || options.hidden == .deny
      var version = cached.version(parent, directory)
      func openBacking(_ exclusive: CInt) throws(Errno) -> Descriptor {
        try realName.withPointer { (name) throws(Errno) in
          func open() throws(Errno) -> Descriptor {
            try directory.directory.open(
              name, backingFlags(flags) | O_CREAT | exclusive, mode: mode & 0o7777)
          }
          return try cached.suppressingSelfEvents((parent, .made, name)) { () throws(Errno) in
            if exclusive != 0 { return try client.impersonateForMode(mode, open) }
            let credentials = client.credentials
            let file = try credentials.impersonate(open)
            try checkMayOpen(file.rawValue, flags, credentials)
            return file
          }
        }
      }
      var wasThere = false
      let descriptor: Descriptor
      do throws(Errno) {
        do throws(Errno) { descriptor = try openBacking(O_EXCL) } catch {
          guard error == .fileExists, !mustBeNew, flags & O_EXCL == 0 else { throw error }
          wasThere = true
          descriptor = try openBacking(0)
        }
      } catch {
        // ELOOP: the name is a symlink, which the kernel has to follow.
        throw error == .tooManySymbolicLinkLevels ? .staleNFSFileHandle : error
      }
      version?.noteOwnChange()
      let status = try truncatedIfRequested(descriptor, flags: flags, client: client)
      guard FileType(mode: status.st_mode) == .regular else {
        view?.reconcile(real)
        throw .staleNFSFileHandle
      }
      if let tunnelled, real == tunnelled.realName {
        dropTunnelled(typed, in: parent, client: client)
        restore(tunnelled.attributes, to: descriptor, called: real, in: directory, client: client)
      }
      cached.noteMade(typed, in: parent)
      // Another process has just made it, or the file system has the name under another spelling, by which alone it is listed.
      if wasThere { view?.noteAllChanged() } else { view?.reconcile(real, status) }
      made = realName
      // A real name that was given back may only match the typed one.
      let isMatch = real != typed && view?.projection.resolve(typed.bytes.span) == nil
      let found = Found(
        directory: directory, realName: realName, status: status, nodeKind: .plain, byRealName: real == typed,
        isMatch: isMatch, isEntryCacheable: !isMatch && !wasThere)
      let entry = try entry(found, in: parent, version: version)
      let isFlushNeeded = realName.withPointer { needsFlush($0, status, flags) }
      let file = opened(
        descriptor, entry.id, wasThere ? flags & ~O_CREAT : flags, status, needsFlush: isFlushNeeded, client)
      openNodes.insert(file)
      return CreatedFile(entry: entry, file: file)
    }
  }

  /// The kernel took the name of this file for free, so it has checked the directory alone.
  ///
  /// - Throws: ESTALE: the kernel looks the name up again, and checks the file that it finds.
  private func checkMayOpen(_ file: CInt, _ flags: CInt, _ credentials: Credentials) throws(Errno) {
    do throws(Errno) {
      try credentials.checkAccess(Credentials.access(forOpening: flags), to: file)
    } catch { throw error == .permissionDenied ? .staleNFSFileHandle : error }
  }

  /// The status of the file that was created, or opened if another process created it since the lookup. The kernel takes it for
  /// new and does not truncate it, so O_TRUNC is applied here.
  private func truncatedIfRequested(
    _ file: borrowing Descriptor, flags: CInt, client: Client
  ) throws(Errno) -> stat {
    let status = try fileStatus(file.rawValue)
    guard flags & O_TRUNC != 0, status.st_size > 0, FileType(mode: status.st_mode) == .regular else {
      return status
    }
    try empty(file, flags, client)
    return try fileStatus(file.rawValue)
  }

  /// - Returns: nil when the file has just been removed.
  private func openExisting(
    _ existing: Resolved, in directory: LockedDirectory, flags: CInt, client: Client
  ) throws(Errno) -> CreatedFile? {
    // Only a race between two programs leads here: the kernel looks a name up before it creates it.
    guard existing.nodeKind == .plain else { throw .permissionDenied }
    let handle = directory.handle
    let status: stat
    do throws(Errno) {
      status = try existing.realName.withPointer { (name) throws(Errno) in
        let file = try handle.locate(name)
        let status = try fileStatus(file.rawValue)
        guard FileType(mode: status.st_mode) == .regular else { throw .staleNFSFileHandle }
        let credentials = client.credentials
        try credentials.impersonate { () throws(Errno) in
          try Directory(descriptor: file.rawValue).check("", Credentials.access(forOpening: flags))
        }
        try checkMayOpen(file.rawValue, flags, credentials)
        return status
      }
    } catch {
      if error == .noSuchFileOrDirectory { return nil }
      throw error
    }
    let found = Found(
      directory: handle, realName: existing.realName, status: status, nodeKind: .plain,
      byRealName: !existing.byDisplayName, isMatch: existing.isMatch)
    let entry = try entry(found, in: directory.node)
    do throws(Errno) {
      return CreatedFile(entry: entry, file: try open(entry.id, flags: flags & ~O_CREAT, client: client))
    } catch {
      nodes.forget(entry.id, count: 1)
      throw error
    }
  }

  /// Creates a file without a name. (open with O_TMPFILE)
  package func makeTemporaryFile(
    _ parent: NodeID, mode: mode_t, flags: CInt, client: Client
  ) throws(Errno) -> CreatedFile {
    let handle = try directory(parent)
    try refuseAdding(to: parent)
    try ensureDescriptorsLeft()
    let descriptor = try client.impersonateForMode(mode) { () throws(Errno) in
      try handle.directory.open(".", backingFlags(flags) | dfs_O_TMPFILE, mode: mode & 0o7777)
    }
    let status = try fileStatus(descriptor.rawValue)
    let durable = durableNodeID(of: "", in: Directory(descriptor: descriptor.rawValue), status, .plain)
    let node = "".withCString { noName in
      nodes.lookupOrInsert(
        LookedUpFile(
          identity: FileIdentity(status), type: .regular, nodeKind: .plain, parent: parent, name: noName,
          durable: durable),
        .another)!
    }
    let file = opened(descriptor, node.id, flags, status, needsFlush: true, client)
    openNodes.insert(file)
    return CreatedFile(
      entry: Entry(node, present(status)), file: file)
  }

  /// The flags with which a backing file is opened. Flags that only concern the name are removed: they are handled here.
  ///
  /// O_NONBLOCK is added: a FIFO that has replaced a regular file must not block a thread of the daemon.
  func backingFlags(_ flags: CInt) -> CInt {
    flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | dfs_O_NOFOLLOW) | O_NONBLOCK
  }
}

extension Client {
  /// Runs `body`, which makes something of that mode, as `impersonateWithGroups` if the mode has the set-group-ID bit, else as
  /// `impersonateWithAnySetID`.
  func impersonateForMode<R: ~Copyable>(_ mode: mode_t, _ body: () throws(Errno) -> R) throws(Errno) -> R {
    mode & S_ISGID != 0
      ? try impersonateWithGroups(body) : try impersonateWithAnySetID(makesFiles: true, body)
  }
}
