import BackingTree
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// Makes a package of a package stream that was written into the view, when the client closes the file.
///
/// The stream is checked completely, unpacked in staging, synchronized to disk, and put in place by one rename. Until then, and
/// whenever anything is wrong with it, the file stays as it is.
extension View {
  /// Called when a client closes a file that it may have written. Makes a package of the file if it holds a package's stream.
  func importPackage(_ file: OpenFile, client: Client) {
    guard packages.areImported, file.mayWrite, options.packages == .file else { return }
    if let changed = packages.imported.take(file.node, where: { !$0.isAsImported }) {
      if revertToStream(changed) {
        importPackage(
          at: changed.parent, realName: changed.file, identity: changed.written.identity, client: client,
          isMadeByClient: file.isNew)
      }
    } else if !packages.imported.contains(file.node), mayHoldStream(file),
      let link = nodes.link(of: file.node), link.nodeKind == .plain
    {
      importPackage(
        at: link.parent, realName: link.name, identity: link.identity, client: client,
        isMadeByClient: file.isNew)
    }
  }

  /// Whether a file is large enough to hold a package's stream. A smaller one need not be opened again and read.
  private func mayHoldStream(_ file: OpenFile) -> Bool {
    (try? fileStatus(file.descriptor.rawValue).st_size).map { $0 >= PackageImport.minimumSize } ?? true
  }

  /// The same for a file that a rename has just made visible.
  ///
  /// - Parameter isMadeByClient: whether the client has made the file, or given it its name.
  func importPackage(
    at parent: NodeID, realName: CName, identity: FileIdentity, client: Client, isMadeByClient: Bool
  ) {
    let name = realName.name
    do throws(Errno) {
      let handle = try directory(parent)
      // The daemon reads the file with its own credentials: a client that wrote the file need not be allowed to read it.
      let stream = try realName.withPointer { (name) throws(Errno) in
        try handle.directory.openRegular(name, O_RDONLY)
      }
      guard FileIdentity(stream.status) == identity,
        let owner = packageOwner(of: stream.status, client, isMadeByClient),
        let type = PackageImport.type(of: stream.descriptor.rawValue)
      else { return }
      let state = StreamState(stream.status)
      // The other name would keep the stream, and no longer show what is written by this one.
      guard stream.status.st_nlink == 1 else {
        return noteRefused(state) {
          "\(name) holds a package of the type \(type), but has another hard link: it stays a file"
        }
      }
      try importPackage(
        stream.descriptor, state, type: type, realName, in: handle, parent, client, owner: owner)
    } catch {
      // Another process removed or renamed the file.
      if error == .noSuchFileOrDirectory || error == .staleNFSFileHandle { return }
      logger.error("\(name) stays a file even if it holds a package: \(error)")
    }
  }

  private func importPackage(
    _ stream: borrowing Descriptor, _ state: StreamState, type: String, _ file: CName,
    in handle: DirectoryHandle, _ parent: NodeID, _ client: Client, owner: Client
  ) throws(Errno) {
    let name = file.name
    let view = try directoryView(parent)
    guard let real = inspector.packageName(for: name, type: type, at: view.lastSite) else {
      noteRefused(state) {
        "\(name) holds a package of the type \(type), but under this name it stays a file"
      }
      return
    }
    // A program may close a large stream again and again.
    if let node = nodes.node(of: state.identity), packages.imported.wasRefused(node, state) { return }
    let checked: PackageImport
    do throws(PackageImportError) {
      checked = try ProcessorShare.run { () throws(PackageImportError) in
        try PackageImport(checking: stream.rawValue)
      }
    } catch {
      // The check also fails for a copy that is still being written, because the stream ends too soon.
      let isChecked = [.damaged, .refused].contains(error.kind)
      noteRefused(state, isChecked: isChecked) { "\(name) begins like a package but stays a file: \(error)" }
      return
    }
    try client.check(".", in: handle.directory, W_OK | X_OK)
    // `unpack` checks each member again.
    guard let state = try StreamState(settled: stream) else {
      return noteRefused(state) {
        "\(name) holds a package but stays a file: a program goes on writing to it"
      }
    }
    let place = try unpackingPlace(for: handle)
    let package = try makeDirectory(at: place, owner)
    do throws(PackageImportError) {
      var failure: PackageImportError?
      do throws(Errno) {
        let writers = try writers(of: stream, unpackedInto: package)
        // The files get the owner of the stream, never the owners recorded in it: closing a file must not create files that
        // belong to a third user.
        try owner.impersonateWithGroups { () throws(Errno) in
          do throws(PackageImportError) {
            try ProcessorShare.run { () throws(PackageImportError) in
              try checked.unpack(
                into: Directory(descriptor: package.rawValue), owners: .client, writers: writers)
            }
          } catch { failure = error }
        }
      } catch { throw PackageImportError(failed: error) }
      if let failure { throw failure }
      do throws(Errno) {
        try copyAttributes(of: stream, to: package, owner)
      } catch { throw PackageImportError(failed: error) }
    } catch {
      discard(place)
      logger.error("\(name) holds a package but stays a file: \(error)")
      return
    }
    // Whatever differs later was changed by a client.
    let stamp = try? PackageStamp(of: Directory(descriptor: package.rawValue), mayMove: true)
    let leftover: (place: Staging.Place, status: stat)
    var node: NodeID?
    var times: FileTimes?
    do throws(Errno) {
      leftover = try view.changing { (isReadable) throws(Errno) in
        guard isReadable else { throw .permissionDenied }
        let leftover = try swapIn(
          place, FileIdentity(fileStatus(package.rawValue)), for: file, state, as: CName(real), in: handle)
        times = (try? fileStatus(package.rawValue)).map { FileTimes($0) }
        node = nodes.node(of: state.identity, nodeKind: .plain)
        let links = (try? fileStatus(stream.rawValue).st_nlink) ?? 1
        _ = file.withPointer {
          nodes.didRemove(state.identity, nodeKind: .plain, from: parent, name: $0, isLast: links <= 1)
        }
        noteChange([name, real], in: parent, view)
        return leftover
      }
    } catch {
      discard(place)
      throw error
    }
    waitForNextTick(after: leftover.status)
    // Without the record the next mount keeps the stream.
    try? Staging.StreamRecord(
      package: FileIdentity(fileStatus(package.rawValue)).inode, changed: leftover.status.st_ctim
    )
    .write(for: leftover.place.name, in: leftover.place.directory.directory)
    let imported = ImportedStream(
      directory: handle, parent: parent, file: file, package: CName(real), place: leftover.place,
      written: state,
      stagedTimes: FileTimes(leftover.status),
      packageIdentity: FileIdentity(try fileStatus(package.rawValue)), stamp: stamp, times: times)
    // Removes the stream at once, or when no process can write to it any more.
    guard let node else { return finishOrKeep(imported) }
    packages.imported.add(imported, for: node)
    finishImport(node)
  }

  /// Waits until a change of a file gets another time than its last one. Before Linux 6.13 two changes in one tick of the clock,
  /// 10 ms at most, get the same time. A server's clock may be ahead.
  private func waitForNextTick(after status: stat) {
    for _ in 0..<10 {
      let now = FileTimes.now
      if (status.st_ctim.tv_sec, status.st_ctim.tv_nsec) < (now.tv_sec, now.tv_nsec) { return }
      usleep(1000)
    }
  }

  /// Logs once for each file why it does not become a package: it may be closed many times while it is written.
  private func noteRefused(_ state: StreamState, isChecked: Bool = false, _ reason: () -> String) {
    guard let node = nodes.node(of: state.identity),
      packages.imported.noteRefused(node, checked: isChecked ? state : nil)
    else { return }
    logger.notice("\(reason())")
  }

  /// Makes an empty directory to unpack in, which belongs to the owner of the stream. Its entries get its group.
  private func makeDirectory(at place: Staging.Place, _ owner: Client) throws(Errno) -> Descriptor {
    try CName(place.name).withPointer { (name) throws(Errno) in
      try place.directory.directory.makeDirectory(name, mode: 0o700)
      let made = try place.directory.directory.open(name, O_RDONLY | O_DIRECTORY)
      if geteuid() == 0 {
        try setOwner(made.rawValue, owner.user, owner.group)
      } else {
        // A user's daemon can give it to no group that the user is not a member of.
        try? setOwner(made.rawValue, uid_t.max, owner.group)
      }
      try? setPermissions(made.rawValue, S_ISGID | 0o700)
      return made
    }
  }

  /// Puts the package in the place of the stream, and moves the stream to staging. If the two names differ, both entries exist
  /// for a moment, each of them complete.
  ///
  /// - Returns: where the stream is in staging, and its status there.
  /// - Throws: ESTALE when another file has replaced the stream, or it was changed or has got another hard link. That file stays
  ///   where it is.
  private func swapIn(
    _ place: Staging.Place, _ package: FileIdentity, for file: CName, _ state: StreamState, as real: CName,
    in handle: DirectoryHandle
  ) throws(Errno) -> (place: Staging.Place, status: stat) {
    let unpacked = CName(place.name)
    func stream(_ name: CName, _ directory: DirectoryHandle) -> stat? {
      guard let found = name.withPointer({ try? directory.status($0) }) else { return nil }
      return StreamState(found) == state && found.st_nlink == 1 ? found : nil
    }
    // The rename sets the change time, so it can be compared only before.
    guard let found = stream(file, handle), FileTimes(found) == state.times else { throw .staleNFSFileHandle }
    /// Only what was unpacked gets the name back under which it may be deleted.
    func withdraw(_ staged: Staging.Place) {
      let name = CName(staged.name)
      guard let found = name.withPointer({ try? staged.directory.status($0) }), FileIdentity(found) == package
      else { return }
      try? rename(name, in: staged.directory, unpacked, in: place.directory, .noReplace)
    }
    if real.name == file.name {
      // What the exchange takes from the view need not be the stream any more.
      let exchanged = place.neighbor(for: .stream(state, package: package))
      let staged = CName(exchanged.name)
      try Staging.StreamRecord(package: package.inode).write(
        for: exchanged.name, in: place.directory.directory)
      var isDone = false
      defer { if !isDone { exchanged.removeRecord() } }
      try rename(unpacked, in: place.directory, staged, in: place.directory, .noReplace)
      defer { withdraw(exchanged) }
      try rename(staged, in: place.directory, real, in: handle, .exchange)
      if let found = stream(staged, place.directory) {
        isDone = true
        return (exchanged, found)
      }
      // A client may have changed the package since.
      exchanged.removeRecord()
      try rename(staged, in: place.directory, real, in: handle, .exchange)
      throw .staleNFSFileHandle
    }
    try rename(unpacked, in: place.directory, real, in: handle, .noReplace)
    do throws(Errno) {
      let staged = try file.withPointer { (name) throws(Errno) in
        try stage(name, of: handle, as: .stream(state, package: package))
      }
      if let found = stream(CName(staged.name), staged.directory) { return (staged, found) }
      try rename(CName(staged.name), in: staged.directory, file, in: handle, .noReplace)
      staged.removeRecord()
      throw .staleNFSFileHandle
    } catch {
      let withdrawn = place.neighbor(for: .reverted)
      try rename(real, in: handle, CName(withdrawn.name), in: place.directory, .noReplace)
      withdraw(withdrawn)
      throw error
    }
  }

  private func rename(
    _ from: CName, in old: DirectoryHandle, _ to: CName, in new: DirectoryHandle, _ flags: RenameFlags
  ) throws(Errno) {
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        try old.directory.move(from, to: new.directory, to, flags)
      }
    }
  }

  // MARK: Streams that are still open

  /// Called when a file may have lost its last writer. Does nothing while a client can still write to the file.
  package func finishImport(_ node: NodeID) {
    guard !openNodes.isBeingWritten(node), let stream = packages.imported.take(node) else { return }
    finishOrKeep(stream)
  }

  private func finishOrKeep(_ stream: ImportedStream) {
    if !keepsWriter(stream) { return finishImport(stream) }
    if stream.showsMappedWrites { keep(stream) } else { _ = revertToStream(stream) }
  }

  /// Called when the session ends: files that are still open in the view can no longer be written.
  package func finishImports() {
    for stream in packages.imported.takeAll() { finishImport(stream) }
    for stream in packages.imported.takeKept() {
      if !stream.hasWriter {
        finishImport(stream)
      } else {
        logger.notice(
          "\(stream.file.name) became a package, and a program may still write to its stream: that is kept as \(stream.place.name) in \(Staging.name) until the next mount"
        )
      }
    }
  }

  /// Whether a stream still has a writer a moment after it was closed: the kernel may have to close what a client has closed.
  private func keepsWriter(_ stream: ImportedStream) -> Bool {
    for _ in 0..<10 {
      if !stream.hasWriter { return false }
      usleep(1000)
    }
    return stream.hasWriter
  }

  private func finishImport(_ stream: ImportedStream) {
    if stream.isAsImported { discard(stream.place) } else { _ = revertToStream(stream) }
  }

  /// Keeps a stream that no client has open in the view, but that a process may still write: through a mapping of the backing file,
  /// which the kernel makes where data passes through, or in the tree.
  private func keep(_ stream: ImportedStream) {
    guard packages.imported.keep(stream) else { return }
    let thread = Thread { [self] in
      while packages.imported.continuesWatching() {
        usleep(ImportedStreams.pause)
        for stream in packages.imported.takeKept(where: { !$0.hasWriter }) { finishImport(stream) }
      }
    }
    // Without a thread the end of the session finishes them.
    if let thread { thread.detach() } else { packages.imported.noteUnwatched() }
  }

  /// Turns a package back into the stream that it was made from, because a client has written to the stream since. The package is
  /// removed unless it has been changed too.
  private func revertToStream(_ stream: ImportedStream) -> Bool {
    do throws(Errno) {
      let isKnown = nodes.hasIdentity(stream.parent, stream.directory.identity)
      let view = isKnown ? try? directoryView(stream.parent) : nil
      let leftover =
        if let view {
          try view.changing { (_) throws(Errno) in try exchangeForStream(stream, view) }
        } else {
          try exchangeForStream(stream, nil)
        }
      if let leftover { discard(leftover) }
      logger.notice("\(stream.file.name) was written to after it had become a package: it is a file again")
      return true
    } catch {
      logger.error(
        "\(stream.file.name) was written to after it had become a package, and cannot be restored (\(error)): it is kept as \(stream.place.name) in \(Staging.name)"
      )
      return false
    }
  }

  /// - Parameter view: nil where the kernel does not know the directory.
  /// - Returns: where the package is in staging; nil when it stays in the view.
  private func exchangeForStream(
    _ stream: ImportedStream, _ view: DirectoryView?
  ) throws(Errno) -> Staging.Place? {
    let handle = stream.directory
    func noteChange(_ names: [Name]) { if let view { self.noteChange(names, in: stream.parent, view) } }
    let isUntouched = stream.package.withPointer { self.isUntouched(stream, $0, in: handle) }
    let isInPlace = stream.package.name == stream.file.name && isUntouched
    // The place may hold the package next, and no later mount must take that for the stream.
    stream.place.removeRecord()
    try rename(
      CName(stream.place.name), in: stream.place.directory, stream.file, in: handle,
      isInPlace ? .exchange : .noReplace)
    defer { noteChange([stream.file.name, stream.package.name]) }
    guard isUntouched else { return nil }
    let package =
      isInPlace
      ? stream.place
      : try stream.package.withPointer { (name) throws(Errno) in try stage(name, of: handle, as: .reverted) }
    // A client that works in the package, or has a file of it open, may have changed it until then.
    guard
      CName(package.name).withPointer({ self.isUntouched(stream, $0, in: package.directory, isMoved: true) })
    else {
      let restored = package.restore(
        to: stream.package.name, in: handle.directory, logger,
        because: "was changed while it was made a file again")
      noteChange(restored.map { [$0] } ?? [])
      return nil
    }
    for nodeKind in [NodeKind.plain, .packageFile] {
      _ = stream.package.withPointer {
        nodes.didRemove(
          stream.packageIdentity, nodeKind: nodeKind, from: stream.parent, name: $0, isLast: true)
      }
    }
    return package
  }

  private func isUntouched(
    _ stream: ImportedStream, _ name: UnsafePointer<CChar>, in handle: DirectoryHandle, isMoved: Bool = false
  ) -> Bool {
    guard let stamp = stream.stamp, let package = try? handle.directory.open(name, O_RDONLY | O_DIRECTORY),
      let status = try? fileStatus(package.rawValue), FileIdentity(status) == stream.packageIdentity,
      isMoved || stream.times.map({ $0 == FileTimes(status) }) ?? false
    else { return false }
    return (try? PackageStamp(of: Directory(descriptor: package.rawValue), mayMove: true)) == stamp
  }

  /// Makes the view and the kernel drop what they know about names that the daemon has changed without a request from the kernel.
  ///
  /// - Parameter isKnown: whether the kernel may know the entry that is gone.
  func noteChange(_ names: [Name], in parent: NodeID, _ view: DirectoryView?, isKnown: Bool = true) {
    cached.noteOwnChange(in: parent)
    for name in names { view?.reconcile(name) }
    let stale = names.map { StaleName($0, in: parent, mayBeDirectory: true) }
    if isKnown {
      invalidateBeforeNextWalk(stale)
    } else {
      cached.kernel?.invalidate(stale)
    }
  }
}

extension EntryInspector {
  /// The real name under which a package of type `type` is stored when the client has named it `name`. Nil if it would be no
  /// package under that name, or would be hidden.
  func packageName(for name: Name, type: String, at site: Site) -> Name? {
    guard !site.role.contains(.insidePackage), !isHiddenByName(name, .directory, at: site) else {
      return nil
    }
    if let kind = site.rules.verdict(on: name.bytes.span, isDirectory: true).kind {
      return kind.value == .package ? name : nil
    }
    if packageTypes.identifier(of: name) == type, packageTypes.type(of: name.bytes.span) != nil {
      return name
    }
    // A client that gives another known extension wants that type: a stream saved as `Calculator.tar` is an archive.
    if hasKnownExtension(name) { return nil }
    guard let ext = packageTypes.fileExtension(of: type) else {
      // The bundle bit, which the stream carries, makes this directory a package.
      return type == PackageType.byBundleBit.uti && metadata.isPresent ? name : nil
    }
    let real = Name(name.bytes + [0x2e] + Array(ext.utf8))
    guard real.fits, !isHiddenByName(real, .directory, at: site) else { return nil }
    let kind = site.rules.verdict(on: real.bytes.span, isDirectory: true).kind?.value
    return kind == nil || kind == .package ? real : nil
  }
}
