import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Removes a file, or a whole package by its display name. (`unlink`)
  public func unlink(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    try refuseIfMoved(parent, caller)
    var removed: Name?
    let removal: PackageRemoval? = try changing(parent) { (directory, view) throws(Errno) in
      let (realName, facet, resolved) = try removable(name, in: view)
      let status = try realName.withPointer { (name) throws(Errno) in try directory.status(name) }
      try refuseRemoving(realName.name, isDirectory: facet == .packageFile, from: parent)
      if facet == .packageFile {
        return try beginRemoval(realName, status, in: directory, parent, view, caller)
      }
      let memory = resolved.flatMap {
        self.memory(of: $0, typed: Name(copying: name), in: directory, parent, caller)
      }
      try removeFile(realName, status, in: directory, parent, view, caller)
      remember(memory, caller: caller)
      removed = realName.name
      return nil
    }
    if let removed { noteMarker(removed, in: parent) }
    if let removal { try finish(removal) }
  }

  /// Removes an empty directory. (`rmdir`)
  public func removeDirectory(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    try refuseIfMoved(parent, caller)
    let removed = try changing(parent) { (directory, view) throws(Errno) -> Name in
      let (realName, facet, _) = try removable(name, in: view)
      if facet == .packageFile { throw .notDirectory }
      try refuseRemoving(realName.name, isDirectory: true, from: parent)
      try removeEmptyDirectory(realName, in: directory, parent, view, caller)
      return realName.name
    }
    noteMarker(removed, in: parent)
  }

  /// Removes a directory together with its AppleDouble sidecar.
  func removeEmptyDirectory(
    _ realName: CName, in directory: DirectoryHandle, _ parent: NodeID, _ view: DirectoryView?,
    _ caller: Caller
  ) throws(Errno) {
    let place = CompanionPlace(directory: directory, id: parent, view: view)
    let companion = companion(of: realName.name, in: place)
    try realName.withPointer { (name) throws(Errno) in
      let status = try directory.status(name)
      let left = remains(of: name, status, in: directory)
      try cached.unheard((parent, .removed, name)) { () throws(Errno) in
        try caller.actWithoutSetID { () throws(Errno) in try directory.directory.removeDirectory(name) }
      }
      keep(left)
      noteGone(
        nodes.removed(FileIdentity(status), facet: .plain, from: parent, name: name, isLast: true),
        realName.name, view?.shownName(realName.name), in: parent, mayBeDirectory: true)
      forgetTunnel(of: FileIdentity(status))
    }
    view?.reconcileRemoved(realName.name)
    if let companion { removeCompanion(companion, in: place, caller.credentials) }
    removeNetatalkFile(of: realName.name, in: place, caller)
  }

  private func removable(
    _ name: UnsafePointer<CChar>, in view: DirectoryView?
  ) throws(Errno) -> (CName, Facet, Resolved?) {
    guard view != nil else { return (CName(copying: name), .plain, nil) }
    guard let resolved = resolve(name, in: view) else { throw .noSuchFileOrDirectory }
    return (resolved.realName, resolved.facet, resolved)
  }

  /// Removes one name of a file together with its AppleDouble sidecar.
  func removeFile(
    _ realName: CName, _ status: stat, in directory: DirectoryHandle, _ parent: NodeID,
    _ view: DirectoryView?,
    _ caller: Caller
  ) throws(Errno) {
    let place = CompanionPlace(directory: directory, id: parent, view: view)
    let companion = companion(of: realName.name, in: place)
    try realName.withPointer { (name) throws(Errno) in
      let left = remains(of: name, status, in: directory)
      try cached.unheard((parent, .removed, name)) { () throws(Errno) in
        try caller.actWithoutSetID { () throws(Errno) in try directory.directory.unlink(name) }
      }
      keep(left)
      expireOtherNames(of: status)
      noteGone(
        nodes.removed(
          FileIdentity(status), facet: .plain, from: parent, name: name, isLast: status.st_nlink <= 1),
        realName.name, view?.shownName(realName.name), in: parent, mayBeDirectory: false)
    }
    view?.reconcileRemoved(realName.name)
    if let companion { removeCompanion(companion, in: place, caller.credentials) }
    removeNetatalkFile(of: realName.name, in: place, caller)
  }
}
