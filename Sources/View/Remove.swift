import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

extension View {
  /// Removes a file, or a whole package by its display name. (`unlink`)
  public func unlink(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    let staged: Staged? = try changing(parent) { (directory, view) throws(Errno) in
      let (realName, facet, resolved) = try removable(name, in: view)
      let status = try realName.withPointer { (name) throws(Errno) in try directory.status(name) }
      if facet == .packageFile {
        return try removePackage(realName, status, in: directory, parent, view, caller)
      }
      let memory = resolved.flatMap { self.memory(of: $0, typed: Name(copying: name), in: directory, parent) }
      try removeFile(realName, status, in: directory, parent, view, caller)
      remember(memory, caller: caller)
      noteMarker(realName.name, in: parent)
      return nil
    }
    if let staged { delete(staged) }
  }

  /// Removes an empty directory. (`rmdir`)
  public func removeDirectory(_ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller) throws(Errno) {
    try changing(parent) { (directory, view) throws(Errno) in
      let (realName, facet, _) = try removable(name, in: view)
      if facet == .packageFile { throw .notDirectory }
      try realName.withPointer { (name) throws(Errno) in
        let status = try directory.status(name)
        try caller.act { () throws(Errno) in try directory.directory.removeDirectory(name) }
        nodes.removed(FileIdentity(status), facet: .plain, from: parent, name: name, isLast: true)
        forgetTunnel(of: FileIdentity(status))
      }
      view?.reconcile(realName.name)
      noteMarker(realName.name, in: parent)
    }
  }

  private func removable(
    _ name: UnsafePointer<CChar>, in view: DirectoryView?
  ) throws(Errno) -> (CName, Facet, Resolved?) {
    guard view != nil else { return (CName(copying: name), .plain, nil) }
    guard let resolved = resolve(name, in: view) else { throw .noSuchFileOrDirectory }
    return (resolved.realName, resolved.facet, resolved)
  }

  /// Removes one name of a file, and its AppleDouble companion with it.
  func removeFile(
    _ realName: CName, _ status: stat, in directory: DirectoryHandle, _ parent: NodeID,
    _ view: DirectoryView?,
    _ caller: Caller
  ) throws(Errno) {
    let companion = companion(of: realName.name, in: directory, view)
    try realName.withPointer { (name) throws(Errno) in
      try caller.act { () throws(Errno) in try directory.directory.unlink(name) }
      nodes.removed(
        FileIdentity(status), facet: .plain, from: parent, name: name, isLast: status.st_nlink <= 1)
    }
    view?.reconcile(realName.name)
    guard let companion else { return }
    do throws(Errno) {
      try CName(companion).withPointer { (name) throws(Errno) in
        try caller.act { () throws(Errno) in try directory.directory.unlink(name) }
      }
      view?.reconcile(companion)
    } catch {
      logger.warning("\(companion) stays after its file was removed: \(error)")
    }
  }

  /// The AppleDouble file that belongs to an entry: `._x` with the format's magic number. Any other `._x` is just a
  /// hidden file.
  func companion(of name: Name, in directory: DirectoryHandle, _ view: DirectoryView?) -> Name? {
    guard let view, !name.bytes.starts(with: Array("._".utf8)), name.bytes.count <= 253 else { return nil }
    let candidate = Name(Array("._".utf8) + name.bytes)
    guard let slot = view.projection.slot(realName: candidate.bytes.span),
      view.projection.summary(at: slot)?.kind == .file
    else { return nil }
    return CName(candidate).withPointer { cName in
      guard let file = try? directory.directory.open(cName, O_RDONLY | O_NONBLOCK) else { return nil }
      let magic = [UInt8](unsafeUninitializedCapacity: 26) { buffer, count in
        count = (try? readFully(file.rawValue, into: UnsafeMutableRawBufferPointer(buffer), at: 0)) ?? 0
      }
      return AppleDouble.isAppleDouble(magic) ? candidate : nil
    }
  }
}
