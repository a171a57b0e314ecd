import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

/// A regular file that was created or opened by name.
public struct CreatedFile {
  public let entry: Entry
  public let file: OpenFile
}

extension View {
  /// Opens a regular file by name, creating it if there is none. (open with O_CREAT)
  ///
  /// - Parameter isInterrupted: as of `open(node:flags:caller:isInterrupted:)`.
  /// - Throws: EEXIST when the name resolves and `flags` holds O_EXCL; EISDIR for a directory; ESTALE when something else has
  ///   got the name since the lookup: the kernel looks it up again.
  public func create(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, flags: CInt, caller: Caller,
    isInterrupted: () -> Bool = { false }
  ) throws(Errno) -> CreatedFile {
    // Called once for each request: a second call would refuse the kernel's second try again.
    try refuseIfMoved(parent, caller)
    staleNames.goesOn(caller.process)
    return try LeaseBreak.retry(flags, isInterrupted) { () throws(Errno) in
      try refuseTheLastDescriptors()
      do throws(Errno) {
        return try createOnce(parent, name, mode: mode, flags: flags, caller: caller)
      } catch {
        guard releaseDescriptors(after: error) else { throw error }
        return try createOnce(parent, name, mode: mode, flags: flags, caller: caller)
      }
    }
  }

  private func createOnce(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, flags: CInt, caller: Caller
  ) throws(Errno) -> CreatedFile {
    let typed = Name(copying: name)
    var made: Name?
    // Deferred until no directory view is locked.
    defer { if let made { noteMarker(made, in: parent) } }
    return try changing(parent) { (directory, view) throws(Errno) in
      if let resolved = resolve(name, in: view) {
        if flags & O_EXCL != 0 { throw .fileExists }
        return try openExisting(resolved, in: directory, parent: parent, flags: flags, caller: caller)
      }
      try refuseIfDenied(typed, in: view)
      try refuseAdding(to: parent)
      let remembered = recall(typed, in: parent, caller: caller)
      guard
        case .create(let real, let exclusive) = CreatePlan.file(
          typed: typed, remembered: remembered?.realName, in: destination(view))
      else { throw .fileNameTooLong }
      let realName = CName(real)
      let mustBeNew = exclusive || options.hidden == .deny
      var lease = cached.lease(parent, directory)
      let openFlags = backingFlags(flags) | O_CREAT | (mustBeNew ? O_EXCL : flags & O_EXCL)
      let descriptor: Descriptor
      do throws(Errno) {
        descriptor = try realName.withPointer { (name) throws(Errno) in
          try cached.unheard((parent, .made, name)) { () throws(Errno) in
            try caller.actForMode(mode) { () throws(Errno) in
              try directory.directory.open(name, openFlags, mode: mode & 0o7777)
            }
          }
        }
      } catch {
        // Another process has created it in the backing tree since the lookup.
        if error == .fileExists { view?.reconcile(real) }
        // ELOOP: the name is a symlink, which the kernel has to follow.
        throw error == .tooManySymbolicLinkLevels ? .staleNFSFileHandle : error
      }
      lease?.noteOwnChange()
      let status = try emptied(descriptor, flags: flags, caller: caller)
      guard FileType(mode: status.st_mode) == .regular else {
        view?.reconcile(real)
        throw .staleNFSFileHandle
      }
      if let remembered, real == remembered.realName {
        forgetRemembered(typed, in: parent, caller: caller)
        inspector.metadata.restore(
          remembered.attributes, to: descriptor, in: directory.directory, caller: caller)
      }
      cached.noteMade(typed, in: parent)
      view?.reconcile(real, status)
      made = real
      let found = Found(
        directory: directory, realName: realName, status: status, facet: .plain)
      let entry = try entry(found, in: parent, byRealName: real == typed, lease: lease)
      let isHeardOf = realName.withPointer { isHeardOfWhenClosed($0, found.status) }
      let file = opened(descriptor, entry.id, flags, found.status, isHeardOfWhenClosed: isHeardOf, caller)
      openNodes.opened(file)
      return CreatedFile(entry: entry, file: file)
    }
  }

  /// The status of the file that was created, or opened if another process created it since the lookup. The kernel takes it for
  /// new and does not truncate it, so O_TRUNC is applied here.
  private func emptied(
    _ file: borrowing Descriptor, flags: CInt, caller: Caller
  ) throws(Errno) -> stat {
    let status = try fileStatus(file.rawValue)
    guard flags & O_TRUNC != 0, status.st_size > 0, FileType(mode: status.st_mode) == .regular else {
      return status
    }
    let descriptor = file.rawValue
    try caller.act { () throws(Errno) in try setSize(descriptor, 0) }
    return try fileStatus(descriptor)
  }

  private func openExisting(
    _ resolved: Resolved, in directory: DirectoryHandle, parent: NodeID, flags: CInt, caller: Caller
  ) throws(Errno) -> CreatedFile {
    // Only a race between two programs leads here: the kernel looks a name up before it creates it.
    guard resolved.facet == .plain else { throw .permissionDenied }
    let status = try resolved.realName.withPointer { (name) throws(Errno) in try directory.status(name) }
    guard FileType(mode: status.st_mode) == .regular else { throw .staleNFSFileHandle }
    let found = Found(directory: directory, realName: resolved.realName, status: status, facet: .plain)
    let entry = try entry(found, in: parent, byRealName: !resolved.byDisplayName)
    do throws(Errno) {
      return CreatedFile(entry: entry, file: try open(entry.id, flags: flags, caller: caller))
    } catch {
      nodes.forget(entry.id, count: 1)
      throw error
    }
  }

  /// (`mkdir`)
  public func makeDirectory(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, caller: Caller
  ) throws(Errno) -> Entry {
    try make(parent, name, .directory, caller: caller, mode: mode) { (directory) throws(Errno) in
      try directory.makeDirectory(name, mode: mode & 0o7777)
    }
  }

  /// (`mknod`) A regular file gets back the real name that its display name stood for, as with `create`.
  public func makeNode(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, device: dev_t, caller: Caller
  ) throws(Errno) -> Entry {
    if mode & S_IFMT == S_IFREG || mode & S_IFMT == 0 {
      let created = try create(parent, name, mode: mode, flags: O_WRONLY | O_EXCL, caller: caller)
      close(created.file)
      return created.entry
    }
    return try make(parent, name, FileType(mode: mode), caller: caller, mode: mode) {
      (directory) throws(Errno) in
      try directory.makeNode(name, mode: mode, device: device)
    }
  }

  /// (`symlink`)
  public func makeSymlink(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, to target: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) -> Entry {
    try make(parent, name, .symlink, caller: caller, mode: 0) { (directory) throws(Errno) in
      try directory.makeSymlink(name, to: target)
    }
  }

  /// Gives a node one more name. (`link`)
  public func link(
    _ id: NodeID, to parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) -> Entry {
    let location = nodes.location(of: id)
    if location?.facet == .packageFile { throw .notPermitted }
    let typed = Name(copying: name)
    let located = try locateLinked(id, to: parent, caller)
    let isRegular = FileType(mode: try fileStatus(located.rawValue).st_mode) == .regular
    let facet = isRegular ? ApparentType.file : .special
    let source =
      location.map { renameSource(at: $0, facet: facet) }
      ?? RenameSource(realName: typed, displayName: typed, addressing: .realName, facet: facet)
    let companion = location.flatMap { companionOfLinked($0) }
    if location != nil { try refuseAltering(id) }
    // Determined before a directory view is locked.
    let stale = location.map { staleNames(of: $0) } ?? []
    return try changing(parent) { (directory, view) throws(Errno) in
      try refuseIfDenied(typed, in: view)
      try refuseAdding(to: parent)
      let remembered = recall(typed, in: parent, caller: caller)
      let plan = CreatePlan.link(
        source, typed: typed, resolves: resolve(name, in: view) != nil,
        sameDirectory: location?.parent == parent,
        remembered: remembered?.realName, in: destination(view))
      guard case .create(let real, _) = plan else {
        if case .refuse(let error) = plan { throw error }
        throw .invalidArgument
      }
      let realName = CName(real)
      _ = try realName.withPointer { (name) throws(Errno) in
        // The source was checked by its descriptor: a link by that descriptor cannot be diverted by a rename.
        try caller.act { () throws(Errno) in
          try systemCall { dfs_empty_path_link(located.rawValue, directory.directory.descriptor, name) }
        }
      }
      cached.noteOwnChange(in: parent)
      if let remembered, real == remembered.realName { forgetRemembered(typed, in: parent, caller: caller) }
      cached.noteMade(typed, in: parent)
      view?.reconcile(real)
      // LINK does not say which name of the node the client gave, so the kernel must look up a file with several links each time.
      invalidate(stale)
      if let companion {
        let place = CompanionPlace(directory: directory, id: parent, view: view)
        linkCompanion(companion.name, in: companion.directory, to: real, in: place, caller)
      }
      return try entry(
        Found(
          directory: directory, realName: realName, status: try fileStatus(located.rawValue), facet: .plain),
        in: parent, byRealName: real == typed)
    }
  }

  /// A descriptor of a link's source, reached by the name that the client gave.
  ///
  /// - Throws: ESTALE once, so that the kernel walks both paths again, if the kernel may know the node by both of its names or by
  ///   one that the node has lost, or if the directory may have been moved; then ENOENT.
  private func locateLinked(_ id: NodeID, to parent: NodeID, _ caller: Caller) throws(Errno) -> Descriptor {
    let isRetry = refusedLinks.take(by: caller.process) != nil
    do throws(Errno) {
      if !isRetry {
        try refuseIfMoved(parent, caller)
        if caller.process != 0, nodes.aliases(of: id).areSeveral { throw .staleNFSFileHandle }
      }
      // A file without a name (O_TMPFILE) gets its first name.
      return try locate(id, byNameOf: nodes.location(of: id) == nil ? nil : caller)
    } catch {
      guard error == .staleNFSFileHandle else { throw error }
      // The kernel walks a path at most twice, and another client has removed the name since.
      if isRetry { throw .noSuchFileOrDirectory }
      refusedLinks.noteRefusal(of: [], by: caller.process)
      throw error
    }
  }

  private func make(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ type: FileType, caller: Caller, mode: mode_t,
    _ act: (Directory) throws(Errno) -> Void
  ) throws(Errno) -> Entry {
    // Called once for each request: a second call would refuse the kernel's second try again.
    try refuseIfMoved(parent, caller)
    do throws(Errno) { return try makeOnce(parent, name, type, caller: caller, mode: mode, act) } catch {
      guard releaseDescriptors(after: error) else { throw error }
      return try makeOnce(parent, name, type, caller: caller, mode: mode, act)
    }
  }

  private func makeOnce(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ type: FileType, caller: Caller, mode: mode_t,
    _ act: (Directory) throws(Errno) -> Void
  ) throws(Errno) -> Entry {
    let real = Name(copying: name)
    var isMade = false
    // Deferred until no directory view is locked.
    defer { if isMade { noteMarker(real, in: parent) } }
    return try changing(parent) { (directory, view) throws(Errno) in
      if resolve(name, in: view) != nil { throw .fileExists }
      try refuseIfDenied(real, in: view)
      try refuseAdding(to: parent)
      var lease = cached.lease(parent, directory)
      let start = fileSystemTime()
      do throws(Errno) {
        try cached.unheard((parent, .made, name)) { () throws(Errno) in
          try caller.actForMode(mode) { () throws(Errno) in try act(directory.directory) }
        }
      } catch {
        if error == .fileExists { view?.reconcile(real) }
        throw error
      }
      lease?.noteOwnChange()
      let status = try directory.status(name)
      cached.noteMade(real, in: parent)
      view?.reconcile(real, status)
      isMade = true
      // Another process has replaced it. The kernel accepts no other type than it requested (EIO).
      guard FileType(mode: status.st_mode) == type else { throw .staleNFSFileHandle }
      noteApplication(real, FileIdentity(status))
      // The new directory may be a package already (`mkdir Letter.rtfd`). The reply to MKDIR must be a directory. Its name is
      // not cached, so the kernel gets the package from the next LOOKUP.
      let isPackage = type == .directory && !isPlainMirror && inspector.mayBePackage(name)
      return try entry(
        Found(
          directory: directory, realName: CName(copying: name), status: status, facet: .plain,
          isNameKept: !isPackage),
        in: parent, lease: lease, sameness: isNewDirectory(status, since: start) ? .another : .unknown)
    }
  }

  /// Whether a directory was made after `start`, and is not an older one that replaced the new one. Then no node with its inode
  /// number is this directory. For such a node the kernel would move that node's dentry here, and it refuses to (ESTALE,
  /// `__d_unalias`) while another client holds the lock of the directory where the node was.
  private func isNewDirectory(_ status: stat, since start: timespec) -> Bool {
    FileType(mode: status.st_mode) == .directory
      && (status.st_mtim.tv_sec, status.st_mtim.tv_nsec) >= (start.tv_sec, start.tv_nsec)
  }

  // MARK: Shared by all changes

  /// Runs a change of one directory with its directory view up to date and locked. `body` gets no view in a mirror, nor where the
  /// directory may be changed but not read.
  func changing<R: ~Copyable>(
    _ parent: NodeID, _ body: (DirectoryHandle, DirectoryView?) throws(Errno) -> R
  ) throws(Errno) -> R {
    let handle = try directory(parent)
    guard !isPlainMirror else { return try body(handle, nil) }
    let view = try directoryView(parent)
    return try view.changing { (isReadable) throws(Errno) in try body(handle, isReadable ? view : nil) }
  }

  func resolve(_ name: UnsafePointer<CChar>, in view: DirectoryView?) -> Resolved? {
    view.flatMap { resolve(name, in: $0.projection) }
  }

  func destination(_ view: DirectoryView?) -> DestinationFacts {
    DestinationFacts(
      hasKnownExtension: { [inspector] name in inspector.hasKnownExtension(name) },
      holds: { name in view?.projection.slot(realName: name.bytes.span) != nil },
      gives: { name in
        guard let view else { return false }
        return !view.projection.isClaimed(name.bytes.span) && !view.site.place.contains(.insidePackage)
      })
  }

  /// Refuses a name that `hidden=deny` hides. An entry created under such a name could not be reached again.
  ///
  /// - Throws: EACCES.
  func refuseIfDenied(_ name: Name, in view: DirectoryView?) throws(Errno) {
    guard options.hidden == .deny, let view else { return }
    // An entry that exists but does not resolve is denied too, whatever rule hides it.
    if view.projection.slot(realName: name.bytes.span) != nil
      || inspector.isHiddenByName(name, at: view.site)
    {
      throw .permissionDenied
    }
  }

  /// The flags with which a backing file is opened. Flags that only concern the name are removed: they are handled here.
  ///
  /// O_NONBLOCK is added: a FIFO that has replaced a regular file must not block a thread of the daemon.
  func backingFlags(_ flags: CInt) -> CInt {
    flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | dfs_O_NOFOLLOW) | O_NONBLOCK
  }

  /// Updates the listings that a new or changed entry affects further up: a `.localized` marker changes how its directory is
  /// listed one level up, and `Contents/Info.plist` how the directory around both is. Called with no directory view locked.
  func noteMarker(_ name: Name, in parent: NodeID) {
    guard parent != NodeTable.root, inspector.mayChangeListingOfParent(name),
      let location = nodes.location(of: parent)
    else { return }
    currentView(of: location.parent)?.noteInside(location.name.name)
    invalidateNames(of: location)
    guard name == "Info.plist", location.name.name == "Contents",
      let above = nodes.location(of: location.parent)
    else { return }
    currentView(of: above.parent)?.noteInside(above.name.name)
    invalidateNames(of: above)
  }
}

extension Caller {
  /// Runs `body` as `actAsMember` if the mode has the set-group-ID bit, else as `actWithoutSetID`.
  func actForMode<R: ~Copyable>(_ mode: mode_t, _ body: () throws(Errno) -> R) throws(Errno) -> R {
    mode & S_ISGID != 0 ? try actAsMember(body) : try actWithoutSetID(body)
  }
}

/// The current time as the kernel's file systems stamp files with it. (`ktime_get_coarse_real_ts64`)
private func fileSystemTime() -> timespec {
  var time = timespec()
  clock_gettime(CLOCK_REALTIME_COARSE, &time)
  return time
}
