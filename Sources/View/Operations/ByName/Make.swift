import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// (`mkdir`)
  package func makeDirectory(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, client: Client
  ) throws(Errno) -> Entry {
    try make(parent, name, .directory, client: client, mode: mode) { (directory) throws(Errno) in
      try directory.makeDirectory(name, mode: mode & 0o7777)
    }
  }

  /// (`mknod`) A regular file gets back the real name that its display name stood for, as with `create`.
  package func makeNode(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, mode: mode_t, device: dev_t, client: Client
  ) throws(Errno) -> Entry {
    if mode & S_IFMT == S_IFREG || mode & S_IFMT == 0 {
      let created = try create(parent, name, mode: mode, flags: O_WRONLY | O_EXCL, client: client)
      close(created.file)
      return created.entry
    }
    return try make(parent, name, FileType(mode: mode), client: client, mode: mode) {
      (directory) throws(Errno) in
      try directory.makeNode(name, mode: mode, device: device)
    }
  }

  /// (`symlink`)
  package func makeSymlink(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, to target: UnsafePointer<CChar>, client: Client
  ) throws(Errno) -> Entry {
    try make(parent, name, .symlink, client: client, mode: 0) { (directory) throws(Errno) in
      try directory.makeSymlink(name, to: target)
    }
  }

  private func make(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ type: FileType, client: Client, mode: mode_t,
    _ create: (Directory) throws(Errno) -> Void
  ) throws(Errno) -> Entry {
    // Called once for each request: a second call would refuse the kernel's second try again.
    try refuseIfMoved(parent, client)
    return try retryingAfterRelease { () throws(Errno) in
      try makeOnce(parent, name, type, client: client, mode: mode, create)
    }
  }

  private func makeOnce(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, _ type: FileType, client: Client, mode: mode_t,
    _ create: (Directory) throws(Errno) -> Void
  ) throws(Errno) -> Entry {
    let real = Name(copying: name)
    var isMade = false
    // Deferred until no directory view is locked.
    defer { if isMade { noteMarker(name, in: parent) } }
    return try preparing(name, in: parent) { (prepared) throws(Errno) in
      try refuseMaking(EntryInspector.kind(of: type), prepared)
      let (directory, view) = (prepared.directory.handle, prepared.directory.view)
      var version = cached.version(parent, directory)
      let start = FileTimes.now
      // EEXIST adds no entry to the view: a file system that folds case has the name under another spelling, and one that another
      // process has just made is reported by the watch.
      try cached.suppressingSelfEvents((parent, .made, name)) { () throws(Errno) in
        try client.impersonateForMode(mode) { () throws(Errno) in try create(directory.directory) }
      }
      version?.noteOwnChange()
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
          directory: directory, realName: CName(copying: name), status: status, nodeKind: .plain,
          isEntryCacheable: !isPackage),
        in: parent, version: version,
        identityMatch: isNewDirectory(status, since: start) ? .another : .unknown)
    }
  }

  /// Whether a directory was made after `start`, and is not an older one that replaced the new one. Then no node with its inode
  /// number is this directory. For such a node the kernel would move that node's dentry here, and it refuses to (ESTALE,
  /// `__d_unalias`) while another client holds the lock of the directory where the node was.
  private func isNewDirectory(_ status: stat, since start: timespec) -> Bool {
    FileType(mode: status.st_mode) == .directory
      && (status.st_mtim.tv_sec, status.st_mtim.tv_nsec) >= (start.tv_sec, start.tv_nsec)
  }
}
