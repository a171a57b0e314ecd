import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Removing a package is one step for everybody who looks: it is renamed into a staging directory, then deleted there.
/// If the daemon dies in between, the next mount of the same SOURCE deletes what it finds in staging.
extension View {
  /// The staging directory, at the top of SOURCE. Its name is hidden like any other that begins with a period.
  static let staging: StaticString = ".displayfs-removed"

  private static let readDirectory = O_RDONLY | O_DIRECTORY

  /// A package that is out of the view and waits to be deleted.
  struct Staged {
    let directory: DirectoryHandle
    let name: Name
  }

  /// Takes a package out of the view. `delete` does the rest, and may be called when no lock is held any more.
  func removePackage(
    _ realName: CName, _ status: stat, in directory: DirectoryHandle, _ parent: NodeID,
    _ view: DirectoryView?,
    _ caller: Caller
  ) throws(Errno) -> Staged {
    let place = CompanionPlace(directory: directory, id: parent, view: view)
    let companion = companion(of: realName.name, in: place)
    return try realName.withPointer { (name) throws(Errno) in
      let package = try directory.directory.open(name, Self.readDirectory)
      // Nothing is touched before it is certain that all of it may go: half a package is nobody's wish.
      try caller.act { () throws(Errno) in try refuseUnlessRemovable(Directory(descriptor: package.rawValue))
      }
      _ = try caller.act { () throws(Errno) in
        try systemCall {
          faccessat(directory.directory.descriptor, ".", W_OK | X_OK, 0x200 /* AT_EACCESS */)
        }
      }
      let staged = try stage(name, status, in: directory)
      for facet in [Facet.plain, .packageFile] {
        nodes.removed(FileIdentity(status), facet: facet, from: parent, name: name, isLast: true)
      }
      view?.reconcile(realName.name)
      if let companion { removeCompanion(companion, in: place, caller) }
      return staged
    }
  }

  func delete(_ staged: Staged) {
    do throws(Errno) {
      try removeTree(staged.name, in: staged.directory.directory)
    } catch {
      logger.error(
        "\(staged.name) could not be deleted from \(Self.staging): \(error); the next mount tries again")
    }
    try? rootHandle.directory.removeDirectory(Self.stagingPointer)
  }

  /// Deletes what an earlier mount could not finish. Called once, when the mount starts.
  public func finishRemovals() {
    guard !isPlainMirror, let opened = try? openStaging(in: rootHandle.directory, make: false) else { return }
    guard let staging = try? opened.directory.openForReading() else { return }
    var names: [Name] = []
    try? forEachEntry(of: staging.rawValue) { names.append(Name($0.name)) }
    let directory = Directory(descriptor: staging.rawValue)
    for name in names {
      do throws(Errno) {
        try removeTree(name, in: directory)
        logger.notice("finished the removal of a package that an earlier mount had begun")
      } catch {
        logger.error("\(name) in \(Self.staging) cannot be deleted: \(error); delete it by hand")
      }
    }
    try? rootHandle.directory.removeDirectory(Self.stagingPointer)
  }

  private func stage(
    _ name: UnsafePointer<CChar>, _ status: stat, in directory: DirectoryHandle
  ) throws(Errno) -> Staged {
    let stagedName = Name(
      "\(UInt64(status.st_dev))-\(UInt64(status.st_ino))-\(UInt64.random(in: .min ... .max))")
    if let staging = try? openStaging(in: rootHandle.directory) {
      let result: Errno? = CName(stagedName).withPointer { staged in
        do throws(Errno) {
          try directory.directory.rename(name, to: staging.directory, staged, .noReplace)
          return nil
        } catch {
          return error
        }
      }
      if result == nil { return Staged(directory: staging, name: stagedName) }
      guard result == .improperLink else { throw result! }
    }
    // On another file system than SOURCE: staged beside itself.
    let beside = Name(Array("\(Self.staging)-".utf8) + stagedName.bytes)
    try CName(beside).withPointer { (staged) throws(Errno) in
      try directory.directory.rename(name, to: directory.directory, staged, .noReplace)
    }
    return Staged(directory: directory, name: beside)
  }

  /// A directory of that name that is not the daemon's own is somebody's, and left alone.
  private func openStaging(in root: Directory, make: Bool = true) throws(Errno) -> DirectoryHandle {
    if make {
      do throws(Errno) { try root.makeDirectory(Self.stagingPointer, mode: 0o700) } catch {
        if error != .fileExists { throw error }
      }
    }
    let staging = try root.open(Self.stagingPointer, Self.readDirectory)
    let status = try fileStatus(staging.rawValue)
    guard status.st_uid == geteuid(), status.st_mode & 0o7777 == 0o700 else { throw .permissionDenied }
    return DirectoryHandle(adopting: staging, identity: FileIdentity(status), covered: nil)
  }

  private static var stagingPointer: UnsafePointer<CChar> {
    UnsafeRawPointer(staging.utf8Start).assumingMemoryBound(to: CChar.self)
  }

  /// Every directory of the package must be one whose entries the caller may remove.
  private func refuseUnlessRemovable(_ directory: Directory) throws(Errno) {
    var pending: [[UInt8]] = [[]]
    while let path = pending.popLast() {
      let current = try open(path, below: directory)
      var subdirectories: [[UInt8]] = []
      var isEmpty = true
      try forEachEntry(of: current.rawValue) { entry in
        isEmpty = false
        if entry.type == .directory {
          subdirectories.append(path + (path.isEmpty ? [] : [0x2f]) + Array(entry.name))
        }
      }
      if !isEmpty {
        try systemCall { faccessat(current.rawValue, ".", W_OK | X_OK, 0x200 /* AT_EACCESS */) }
      }
      pending.append(contentsOf: subdirectories)
    }
  }

  /// Deletes an entry with everything below it, never following a symlink; iterative, as packages may be deep.
  func removeTree(_ name: Name, in directory: Directory) throws(Errno) {
    let status = try CName(name).withPointer { (name) throws(Errno) in try directory.status(name) }
    guard FileType(mode: status.st_mode) == .directory else {
      return try CName(name).withPointer { (name) throws(Errno) in try directory.unlink(name) }
    }
    var stack: [(path: [UInt8], isEmptied: Bool)] = [(name.bytes, false)]
    while let (path, isEmptied) = stack.popLast() {
      let slash = path.lastIndex(of: 0x2f)
      let parentPath = slash.map { Array(path[..<$0]) } ?? []
      let leaf = slash.map { Array(path[($0 + 1)...]) } ?? path
      let parent = try open(parentPath, below: directory)
      if isEmptied {
        try leaf.withCName { (leaf) throws(Errno) in
          try Directory(descriptor: parent.rawValue).removeDirectory(leaf)
        }
        continue
      }
      stack.append((path, true))
      let current = try leaf.withCName { (leaf) throws(Errno) in
        try Directory(descriptor: parent.rawValue).open(leaf, Self.readDirectory)
      }
      forgetTunnel(of: FileIdentity(try fileStatus(current.rawValue)))
      var files: [[UInt8]] = []
      try forEachEntry(of: current.rawValue) { (entry) throws(Errno) in
        var type = entry.type
        if type == .unknown {
          type = FileType(mode: try Directory(descriptor: current.rawValue).status(entry.cName).st_mode)
        }
        if type == .directory {
          stack.append((path + [0x2f] + Array(entry.name), false))
        } else {
          files.append(Array(entry.name))
        }
      }
      for file in files {
        try file.withCName { (file) throws(Errno) in try Directory(descriptor: current.rawValue).unlink(file)
        }
      }
    }
  }

  /// Opens a directory for reading by a path that may be empty.
  private func open(_ path: [UInt8], below directory: Directory) throws(Errno) -> Descriptor {
    if path.isEmpty { return try directory.openForReading() }
    return try path.withCName { (path) throws(Errno) in try directory.openBeneath(path, Self.readDirectory) }
  }
}
