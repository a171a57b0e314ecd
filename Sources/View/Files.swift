import BackingTree
import CFuse
import DisplayNames
import Glibc
import SystemPackage

/// What opening a node gives.
public enum Opened {
  case file(OpenFile)
  case package(OpenPackage)
}

extension View {
  /// Whether a node is a package that is shown as a file.
  public func isPackageFile(_ id: NodeID) -> Bool { nodes.isPackageFile(id) }

  /// Opens a node that is no directory.
  public func open(node id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> Opened {
    guard nodes.isPackageFile(id), let location = nodes.location(of: id) else {
      return .file(try open(id, flags: flags, caller: caller))
    }
    // Its content is what the directory holds; it is replaced as a whole or changed inside.
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
    let start = ContinuousClock.now
    if let beginning = packageSizes.beginning(of: directory, status, type: type),
      mayRead(beginning.files, of: directory, caller)
    {
      return OpenPackage(
        package, name: name, type: type, node: id, caller: caller, reader: nil, beginning: beginning,
        logger: logger)
    }
    let omitted = ContainerData.omitted(from: name)
    let reader = try OpenPackage.reader(directory, type: type, caller: caller, omitting: omitted)
    packageSizes.remember(reader, status, type: type, omitting: omitted, since: start, caller: caller)
    return OpenPackage(
      package, name: name, type: type, node: id, caller: caller, reader: reader, beginning: nil,
      logger: logger)
  }

  private func mayRead(_ files: [[UInt8]], of package: Directory, _ caller: Caller) -> Bool {
    files.allSatisfy { file in
      (try? caller.act { () throws(Errno) in try package.openDeepRegular(file, O_RDONLY) }) != nil
    }
  }

  /// Opens a backing file, checked to be the one that the node stands for before anything is done to it.
  func open(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    if flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0 { try refuseAltering(id) }
    let file = try openChecked(id, flags: flags, caller: caller)
    // By the caller: whether set-user-ID bits stay depends on who cuts.
    if flags & O_TRUNC != 0 {
      try caller.act { () throws(Errno) in try setSize(file.descriptor.rawValue, 0) }
    }
    openNodes.opened(file)
    return file
  }

  private func openChecked(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    try refuseTheLastDescriptors()
    do throws(Errno) { return try openOnce(id, flags: flags, caller: caller) } catch {
      guard releaseDescriptors(after: error) else { throw error }
      return try openOnce(id, flags: flags, caller: caller)
    }
  }

  private func openOnce(_ id: NodeID, flags: CInt, caller: Caller) throws(Errno) -> OpenFile {
    // Programs are executed without being read by whoever runs them; the kernel has checked that they may.
    let isExecution = flags & 0x20 /* FMODE_EXEC */ != 0
    let backing = backingFlags(flags) & ~0x20
    let location = nodes.location(of: id)
    if let location {
      do throws(Errno) {
        let parent = try directory(location.parent).directory
        let found = try location.name.withPointer { (name) throws(Errno) in
          if isExecution { return try parent.open(name, backing) }
          return try caller.actWithoutSetID { () throws(Errno) in try parent.open(name, backing) }
        }
        let status = try fileStatus(found.rawValue)
        if location.isOf(status), !hasLeftOtherPlace(id, location) {
          staleNames.goesOn(caller.process)
          let isHeardOf = location.name.withPointer { isHeardOfWhenClosed($0, status) }
          return OpenFile(
            descriptor: found, node: id, flags: flags, mode: status.st_mode, isHeardOfWhenClosed: isHeardOf)
        }
      } catch {
        // A symlink (ELOOP) has taken its place: the kernel opens none.
        if error != .noSuchFileOrDirectory, error != .staleNFSFileHandle, error != .notDirectory,
          error != .tooManySymbolicLinkLevels
        {
          throw error
        }
      }
    }
    // What has no name any more the kernel may still be led to by the one it had, until it has taken in that this is gone.
    guard let open = openNodes.file(of: id),
      staleNames.isAskedAgain(id, by: caller.process) || location == nil && caller.process == 0
    else { throw .staleNFSFileHandle }
    let again = try open.descriptor.opened(backing)
    let mode = try fileStatus(again.rawValue).st_mode
    return OpenFile(descriptor: again, node: id, flags: flags, mode: mode, isHeardOfWhenClosed: true)
  }

  /// Makes a file without a name. (open with O_TMPFILE)
  public func makeTemporaryFile(
    _ parent: NodeID, mode: mode_t, flags: CInt, caller: Caller
  ) throws(Errno) -> CreatedFile {
    let handle = try directory(parent)
    try refuseAdding(to: parent)
    try refuseTheLastDescriptors()
    let descriptor = try caller.actForMode(mode) { () throws(Errno) in
      try handle.directory.open(".", backingFlags(flags) | dfs_O_TMPFILE, mode: mode & 0o7777)
    }
    let status = try fileStatus(descriptor.rawValue)
    let node = nodes.remember(
      FileIdentity(status), .regular, facet: .plain, parent: parent, name: "", sameness: .another)!
    let file = OpenFile(
      descriptor: descriptor, node: node.id, flags: flags, mode: status.st_mode, isHeardOfWhenClosed: true)
    openNodes.opened(file)
    return CreatedFile(
      entry: Entry(id: node.id, generation: node.generation, attributes: present(status)), file: file)
  }

  /// Whether a file of that name must be looked at, or written out, when somebody who may have written it closes it. A
  /// request for each close is saved where not.
  func isHeardOfWhenClosed(_ name: UnsafePointer<CChar>, _ status: stat) -> Bool {
    if UInt64(status.st_dev) != rootDevice || !fileSystem.keepsWhatWasWritten { return true }
    return !isPlainMirror
      && (strcmp(name, ".hidden") == 0 || importsPackages && inspector.mayBecomePackage(name))
  }

  /// A program closes a file that it may have written: what depends on the content is right from now on.
  public func closing(_ file: OpenFile, caller: Caller) {
    guard file.mayWrite, let location = nodes.location(of: file.node) else { return }
    // The watch tells only when the daemon's own descriptor is closed, some time after this.
    if location.name.equals(".hidden") {
      currentView(of: location.parent)?.noteEverything()
      if options.hidden == .deny { cached.forget([]) }
    }
    importPackage(file, caller: caller)
  }

  /// The kernel has released a file.
  public func close(_ file: OpenFile) {
    // Before it is closed: from then on only its time tells that it was written here.
    if file.mayWrite { ownChanges.note(file.descriptor.rawValue) }
    openNodes.closed(file)
    if file.mayWrite { settle(file.node) }
  }
}
