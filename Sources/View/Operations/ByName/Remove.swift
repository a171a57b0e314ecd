import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Removes a file, or a whole package by its display name. (`unlink`)
  package func unlink(_ parent: NodeID, _ name: UnsafePointer<CChar>, client: Client) throws(Errno) {
    try refuseIfMoved(parent, client)
    var removed: CName?
    let removal: PackageRemoval? = try preparing(name, in: parent) { (name) throws(Errno) in
      let entry = try name.existing()
      let realName = entry.realName.name
      let status = try entry.realName.withPointer { (real) throws(Errno) in
        try name.directory.handle.status(real)
      }
      try refuseRemoving(realName, isDirectory: entry.nodeKind == .packageFile, from: parent)
      if entry.nodeKind == .packageFile {
        return try beginRemoval(entry.realName, status, in: name.directory, client)
      }
      let memory = tunnelMemory(of: name, client)
      try removeFile(realName, status, in: name.directory, client)
      recordInTunnel(memory, client: client)
      removed = entry.realName
      return nil
    }
    removed?.withPointer { noteMarker($0, in: parent) }
    if let removal { try finish(removal) }
  }

  /// Removes an empty directory. (`rmdir`)
  package func removeDirectory(_ parent: NodeID, _ name: UnsafePointer<CChar>, client: Client) throws(Errno) {
    try refuseIfMoved(parent, client)
    let removed = try preparing(name, in: parent) { (name) throws(Errno) -> CName in
      let entry = try name.existing()
      if entry.nodeKind == .packageFile { throw .notDirectory }
      let realName = entry.realName.name
      try refuseRemoving(realName, isDirectory: true, from: parent)
      try removeEmptyDirectory(realName, in: name.directory, client)
      return entry.realName
    }
    removed.withPointer { noteMarker($0, in: parent) }
  }

  /// Removes a directory together with its AppleDouble sidecar.
  func removeEmptyDirectory(
    _ realName: Name, in directory: LockedDirectory, _ client: Client
  ) throws(Errno) {
    let (handle, parent) = (directory.handle, directory.node)
    let sidecar = sidecar(of: realName, in: directory)
    try CName(realName).withPointer { (name) throws(Errno) in
      let status = try handle.status(name)
      let left = lastState(of: name, status, in: handle)
      try cached.suppressingSelfEvents((parent, .removed, name)) { () throws(Errno) in
        try client.impersonateWithAnySetID { () throws(Errno) in try handle.directory.removeDirectory(name) }
      }
      keepLastState(left)
      invalidateOtherAlias(
        nodes.didRemove(FileIdentity(status), nodeKind: .plain, from: parent, name: name, isLast: true),
        realName, directory.view?.listedDisplayName(realName), in: parent, mayBeDirectory: true)
      dropTunnelEntries(of: FileIdentity(status))
    }
    noteRemoved(realName, sidecar, in: directory, client)
  }

  /// Removes one name of a file together with its AppleDouble sidecar.
  func removeFile(
    _ realName: Name, _ status: stat, in directory: LockedDirectory, _ client: Client
  ) throws(Errno) {
    let (handle, parent) = (directory.handle, directory.node)
    let sidecar = sidecar(of: realName, in: directory)
    try CName(realName).withPointer { (name) throws(Errno) in
      let left = lastState(of: name, status, in: handle)
      try cached.suppressingSelfEvents((parent, .removed, name)) { () throws(Errno) in
        try client.impersonateWithAnySetID { () throws(Errno) in try handle.directory.unlink(name) }
      }
      keepLastState(left)
      expireOtherNames(of: status)
      invalidateOtherAlias(
        nodes.didRemove(
          FileIdentity(status), nodeKind: .plain, from: parent, name: name, isLast: status.st_nlink <= 1),
        realName, directory.view?.listedDisplayName(realName), in: parent, mayBeDirectory: false)
    }
    noteRemoved(realName, sidecar, in: directory, client)
  }

  private func noteRemoved(
    _ realName: Name, _ sidecar: Name?, in directory: LockedDirectory, _ client: Client
  ) {
    directory.view?.reconcileRemoved(realName)
    if let sidecar { removeSidecar(sidecar, in: directory, client.credentials) }
    removeNetatalkFile(of: realName, in: directory, client)
  }
}
