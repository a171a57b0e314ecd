import BackingTree
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// A package's stream that was written into the view becomes the package again when the file is closed.
///
/// The stream is checked whole, unpacked in staging, made lasting, and put in place by one rename. Until then, and
/// whenever anything is wrong with it, the file stays what it is.
extension View {
  /// A program closes a file that it may have written: makes a package of it if it is one.
  func importPackage(_ file: OpenFile, caller: Caller) {
    guard importsPackages, file.mayWrite, options.packages == .file else { return }
    if let changed = imported.take(file.node, where: { !$0.isAsImported }) {
      if takeBack(changed) {
        importPackage(
          at: changed.parent, realName: changed.file, identity: changed.written.identity, caller: caller)
      }
    } else if !imported.contains(file.node), let location = nodes.location(of: file.node),
      location.facet == .plain
    {
      importPackage(
        at: location.parent, realName: location.name, identity: location.identity, caller: caller)
    }
  }

  /// The same for a file that has just got the name it is to be seen under.
  func importPackage(at parent: NodeID, realName: CName, identity: FileIdentity, caller: Caller) {
    let name = realName.name
    do throws(Errno) {
      let handle = try directory(parent)
      // Read by the daemon: whoever wrote the file need not be allowed to read it.
      let stream = try realName.withPointer { (name) throws(Errno) in
        try handle.directory.openRegular(name, O_RDONLY)
      }
      // Only what is the caller's own: root may close a file that somebody else has filled.
      guard FileIdentity(stream.status) == identity, stream.status.st_uid == caller.user,
        let type = PackageImport.type(of: stream.descriptor.rawValue)
      else { return }
      try importPackage(
        stream.descriptor, StreamState(stream.status), type: type, realName, in: handle, parent, caller)
    } catch {
      // It was removed by somebody else, or renamed.
      if error == .noSuchFileOrDirectory || error == .staleNFSFileHandle { return }
      logger.error("\(name) stays a file even if it holds a package: \(error)")
    }
  }

  private func importPackage(
    _ stream: borrowing Descriptor, _ state: StreamState, type: String, _ file: CName,
    in handle: DirectoryHandle, _ parent: NodeID, _ caller: Caller
  ) throws(Errno) {
    let name = file.name
    let view = try directoryView(parent)
    guard let real = inspector.packageName(for: name, type: type, at: view.lastSite) else {
      logger.notice("\(name) holds a package of the type \(type), but under this name it stays a file")
      return
    }
    let checked: PackageImport
    do throws(PackageImportError) {
      checked = try PackageImport(checking: stream.rawValue)
    } catch {
      // A copy that is still being written ends too soon; only its last close is worth a word.
      logger.notice("\(name) begins like a package but stays a file: \(error)")
      return
    }
    try caller.actAsMember { () throws(Errno) in try handle.directory.check(".", W_OK | X_OK) }
    let place = try place(for: handle)
    let package = try makeDirectory(at: place, for: handle, caller)
    do throws(PackageImportError) {
      var failure: PackageImportError?
      do throws(Errno) {
        // The caller's, never the stream's owners: closing a file must not make files of somebody else's.
        try caller.actAsMember { () throws(Errno) in
          do throws(PackageImportError) {
            try checked.unpack(into: Directory(descriptor: package.rawValue), owners: .caller)
          } catch { failure = error }
        }
      } catch { throw PackageImportError(failed: error) }
      if let failure { throw failure }
      do throws(Errno) {
        try giveAttributes(of: stream, to: package, caller)
      } catch { throw PackageImportError(failed: error) }
    } catch {
      discard(place)
      logger.error("\(name) holds a package but stays a file: \(error)")
      return
    }
    let leftover: Staging.Place
    var node: NodeID?
    do throws(Errno) {
      leftover = try view.changing { (isReadable) throws(Errno) in
        guard isReadable else { throw .permissionDenied }
        let leftover = try swapIn(place, for: file, state, as: CName(real), in: handle)
        node = nodes.node(of: state.identity, facet: .plain)
        let links = (try? fileStatus(stream.rawValue).st_nlink) ?? 1
        _ = file.withPointer {
          nodes.removed(state.identity, facet: .plain, from: parent, name: $0, isLast: links <= 1)
        }
        noteChange([name, real], in: parent, view)
        return leftover
      }
    } catch {
      discard(place)
      throw error
    }
    // It goes now, or when nobody can write to it any more.
    guard let node else { return discard(leftover) }
    let packageStamp = try? PackageStamp(of: Directory(descriptor: package.rawValue))
    imported.add(
      ImportedStream(
        parent: parent, file: file, package: CName(real), place: leftover, written: state,
        packageIdentity: FileIdentity(try fileStatus(package.rawValue)), stamp: packageStamp), for: node)
    settle(node)
  }

  /// An empty directory to unpack in, the caller's own.
  private func makeDirectory(
    at place: Staging.Place, for target: DirectoryHandle, _ caller: Caller
  ) throws(Errno) -> Descriptor {
    try CName(place.name).withPointer { (name) throws(Errno) in
      try place.directory.directory.makeDirectory(name, mode: 0o700)
      let made = try place.directory.directory.open(name, O_RDONLY | O_DIRECTORY)
      if geteuid() == 0 {
        let around = try target.directory.status()
        try setOwner(
          made.rawValue, caller.user, around.st_mode & S_ISGID != 0 ? around.st_gid : caller.group)
      }
      return made
    }
  }

  /// The package takes the place of the stream, which is in staging then. If the names differ both are there for a
  /// moment, each whole.
  ///
  /// - Throws: ESTALE when something else has come to the stream's place; it stays there.
  private func swapIn(
    _ place: Staging.Place, for file: CName, _ state: StreamState, as real: CName, in handle: DirectoryHandle
  ) throws(Errno) -> Staging.Place {
    func isStream(_ name: CName, _ directory: DirectoryHandle) -> Bool {
      (name.withPointer { try? directory.status($0) }).map(StreamState.init) == state
    }
    guard isStream(file, handle) else { throw .staleNFSFileHandle }
    if real.name == file.name {
      try rename(CName(place.name), in: place.directory, real, in: handle, .exchange)
      if isStream(CName(place.name), place.directory) { return place }
      try rename(CName(place.name), in: place.directory, real, in: handle, .exchange)
      throw .staleNFSFileHandle
    }
    try rename(CName(place.name), in: place.directory, real, in: handle, .noReplace)
    do throws(Errno) {
      let staged = try file.withPointer { (name) throws(Errno) in try stage(name, of: handle) }
      if isStream(CName(staged.name), staged.directory) { return staged }
      try rename(CName(staged.name), in: staged.directory, file, in: handle, .noReplace)
      throw .staleNFSFileHandle
    } catch {
      try rename(real, in: handle, CName(place.name), in: place.directory, .noReplace)
      throw error
    }
  }

  private func rename(
    _ from: CName, in old: DirectoryHandle, _ to: CName, in new: DirectoryHandle, _ flags: RenameFlags
  ) throws(Errno) {
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        try old.directory.rename(from, to: new.directory, to, flags)
      }
    }
  }

  // MARK: Streams that are still open

  /// A file has been closed by everybody who could write to it.
  func settle(_ node: NodeID) {
    guard !openNodes.isBeingWritten(node), let stream = imported.take(node) else { return }
    settle(stream)
  }

  /// The session ends; what is still open can no longer be written.
  public func settleImports() {
    for stream in imported.takeAll() { settle(stream) }
  }

  private func settle(_ stream: ImportedStream) {
    if stream.isAsImported { discard(stream.place) } else { _ = takeBack(stream) }
  }

  /// A stream that was written to after it had become a package is a file again. The package goes, unless somebody has
  /// changed that too.
  private func takeBack(_ stream: ImportedStream) -> Bool {
    do throws(Errno) {
      let view = try directoryView(stream.parent)
      let leftover = try view.changing { (_) throws(Errno) in try exchangeBack(stream, view) }
      if let leftover { discard(leftover) }
      logger.notice("\(stream.file.name) was written to after it had become a package: it is a file again")
      return true
    } catch {
      logger.error(
        "\(stream.file.name) was written to after it had become a package, and cannot come back (\(error)): it is \(stream.place.name) in \(Staging.name)"
      )
      return false
    }
  }

  /// - Returns: where the package is now, nil when it stays.
  private func exchangeBack(
    _ stream: ImportedStream, _ view: DirectoryView
  ) throws(Errno) -> Staging.Place? {
    let handle = view.handle
    let isUntouched = stream.package.withPointer { self.isUntouched(stream, $0, in: handle) }
    let isInPlace = stream.package.name == stream.file.name && isUntouched
    try rename(
      CName(stream.place.name), in: stream.place.directory, stream.file, in: handle,
      isInPlace ? .exchange : .noReplace)
    defer { noteChange([stream.file.name, stream.package.name], in: stream.parent, view) }
    guard isUntouched else { return nil }
    let package =
      isInPlace
      ? stream.place
      : try stream.package.withPointer { (name) throws(Errno) in try stage(name, of: handle) }
    for facet in [Facet.plain, .packageFile] {
      _ = stream.package.withPointer {
        nodes.removed(stream.packageIdentity, facet: facet, from: stream.parent, name: $0, isLast: true)
      }
    }
    return package
  }

  private func isUntouched(
    _ stream: ImportedStream, _ name: UnsafePointer<CChar>, in handle: DirectoryHandle
  ) -> Bool {
    guard let stamp = stream.stamp, let package = try? handle.directory.open(name, O_RDONLY | O_DIRECTORY),
      let status = try? fileStatus(package.rawValue), FileIdentity(status) == stream.packageIdentity
    else { return false }
    return (try? PackageStamp(of: Directory(descriptor: package.rawValue))) == stamp
  }

  /// Neither the view nor the kernel, which was not asked for this change, may go on with what was there before.
  ///
  /// - Parameter isKnown: whether the kernel may know what is gone.
  func noteChange(_ names: [Name], in parent: NodeID, _ view: DirectoryView?, isKnown: Bool = true) {
    cached.noteOwnChange(in: parent)
    for name in names { view?.reconcile(name) }
    let stale = names.map { StaleName($0, in: parent, mayBeDirectory: true) }
    if isKnown {
      invalidate(stale)
    } else {
      cached.kernel?.invalidate(stale)
    }
  }
}

extension EntryInspector {
  /// The real name under which a package of a type is stored when it was given a name; nil when under that name it
  /// would not be a package, or not be seen.
  func packageName(for name: Name, type: String, at site: Site) -> Name? {
    guard !site.place.contains(.insidePackage), !isHiddenByName(name, at: site) else { return nil }
    if let kind = site.rules.verdict(on: name.bytes.span, isDirectory: true).kind {
      return kind.value == .package ? name : nil
    }
    if packageTypes.identifier(of: name) == type, packageTypes.type(of: name.bytes.span) != nil {
      return name
    }
    // Whoever typed another known extension wants that: a stream saved as `Calculator.tar` is an archive.
    if hasKnownExtension(name) { return nil }
    guard let ext = packageTypes.fileExtension(of: type) else {
      // A package by its bundle bit, which travels in the stream.
      return type == PackageType.byBundleBit.uti && metadata.isThere ? name : nil
    }
    let real = Name(name.bytes + [0x2e] + Array(ext.utf8))
    return real.fits ? real : nil
  }
}
