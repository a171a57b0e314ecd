import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Removes a file, or a whole package by its display name. (`unlink`)
  public func unlink(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    try refuseIfMoved(parent, caller)
    var removed: Name?
    let removal: PackageRemoval? = try preparing(name, in: parent) { (name) throws(Errno) in
      let entry = try name.existing()
      let status = try entry.realName.withPointer { (real) throws(Errno) in
        try name.directory.handle.status(real)
      }
      try refuseRemoving(entry.realName.name, isDirectory: entry.facet == .packageFile, from: parent)
      if entry.facet == .packageFile {
        return try beginRemoval(entry.realName, status, in: name.directory, caller)
      }
      let memory = memory(of: name, caller)
      try removeFile(entry.realName, status, in: name.directory, caller)
      remember(memory, caller: caller)
      removed = entry.realName.name
      return nil
    }
    if let removed { noteMarker(removed, in: parent) }
    if let removal { try finish(removal) }
  }

  /// Removes an empty directory. (`rmdir`)
  public func removeDirectory(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    try refuseIfMoved(parent, caller)
    let removed = try preparing(name, in: parent) { (name) throws(Errno) -> Name in
      let entry = try name.existing()
      if entry.facet == .packageFile { throw .notDirectory }
      try refuseRemoving(entry.realName.name, isDirectory: true, from: parent)
      try removeEmptyDirectory(entry.realName, in: name.directory, caller)
      return entry.realName.name
    }
    noteMarker(removed, in: parent)
  }

  /// Removes a directory together with its AppleDouble sidecar.
  func removeEmptyDirectory(
    _ realName: CName, in directory: LockedDirectory, _ caller: Caller
  ) throws(Errno) {
    let (handle, parent) = (directory.handle, directory.node)
    let companion = companion(of: realName.name, in: directory)
    try realName.withPointer { (name) throws(Errno) in
      let status = try handle.status(name)
      let left = remains(of: name, status, in: handle)
      try cached.unheard((parent, .removed, name)) { () throws(Errno) in
        try caller.actWithoutSetID { () throws(Errno) in try handle.directory.removeDirectory(name) }
      }
      keep(left)
      noteGone(
        nodes.removed(FileIdentity(status), facet: .plain, from: parent, name: name, isLast: true),
        realName.name, directory.view?.shownName(realName.name), in: parent, mayBeDirectory: true)
      forgetTunnel(of: FileIdentity(status))
    }
    noteRemoved(realName, companion, in: directory, caller)
  }

  /// Removes one name of a file together with its AppleDouble sidecar.
  func removeFile(
    _ realName: CName, _ status: stat, in directory: LockedDirectory, _ caller: Caller
  ) throws(Errno) {
    let (handle, parent) = (directory.handle, directory.node)
    let companion = companion(of: realName.name, in: directory)
    try realName.withPointer { (name) throws(Errno) in
      let left = remains(of: name, status, in: handle)
      try cached.unheard((parent, .removed, name)) { () throws(Errno) in
        try caller.actWithoutSetID { () throws(Errno) in try handle.directory.unlink(name) }
      }
      keep(left)
      expireOtherNames(of: status)
      noteGone(
        nodes.removed(
          FileIdentity(status), facet: .plain, from: parent, name: name, isLast: status.st_nlink <= 1),
        realName.name, directory.view?.shownName(realName.name), in: parent, mayBeDirectory: false)
    }
    noteRemoved(realName, companion, in: directory, caller)
  }

  private func noteRemoved(
    _ realName: CName, _ companion: Name?, in directory: LockedDirectory, _ caller: Caller
  ) {
    directory.view?.reconcileRemoved(realName.name)
    if let companion { removeCompanion(companion, in: directory, caller.credentials) }
    removeNetatalkFile(of: realName.name, in: directory, caller)
  }
}
