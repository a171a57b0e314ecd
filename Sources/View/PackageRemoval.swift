import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Removing a package is one step for everybody who looks: it is renamed into staging, then deleted there.
extension View {
  private static let readDirectory = O_RDONLY | O_DIRECTORY

  /// Takes a package out of the view. `discard` does the rest, and may be called when no lock is held any more.
  func removePackage(
    _ realName: CName, _ status: stat, in directory: DirectoryHandle, _ parent: NodeID,
    _ view: DirectoryView?,
    _ caller: Caller
  ) throws(Errno) -> Staging.Place {
    let place = CompanionPlace(directory: directory, id: parent, view: view)
    let companion = companion(of: realName.name, in: place)
    return try realName.withPointer { (name) throws(Errno) in
      let package = try directory.directory.open(name, Self.readDirectory)
      // Nothing is touched before it is certain that all of it may go: half a package is nobody's wish.
      try caller.act { () throws(Errno) in try refuseUnlessRemovable(Directory(descriptor: package.rawValue))
      }
      _ = try caller.act { () throws(Errno) in
        try systemCall {
          faccessat(directory.directory.descriptor, ".", W_OK | X_OK, AT_EACCESS)
        }
      }
      let staged = try stage(name, of: directory)
      var given: AliasKinds = []
      for facet in [Facet.plain, .packageFile] {
        given.formUnion(
          nodes.removed(FileIdentity(status), facet: facet, from: parent, name: name, isLast: true))
      }
      noteGone(given, realName.name, view?.shownName(realName.name), in: parent, mayBeDirectory: true)
      view?.reconcile(realName.name)
      if let companion { removeCompanion(companion, in: place, caller) }
      return staged
    }
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
        try systemCall { faccessat(current.rawValue, ".", W_OK | X_OK, AT_EACCESS) }
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
