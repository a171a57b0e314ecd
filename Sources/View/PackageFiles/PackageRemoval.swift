import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The removal of a package by its display name. The package has been checked and taken out of the view; its parts are still to
/// be deleted.
///
/// The parts are deleted with the client's credentials, so that the backing file system decides about each of them. They are
/// checked before the package leaves the view, and again when no client reaches it by a path any more: only then is a part
/// deleted, as a removal that stops halfway leaves a package that is neither whole nor gone.
final class PackageRemoval: Sendable {
  fileprivate let package: Descriptor
  fileprivate let directory: DirectoryHandle
  fileprivate let parent: NodeID
  fileprivate let name: CName
  fileprivate let identity: FileIdentity
  fileprivate let credentials: Credentials
  fileprivate let sidecar: Name?
  /// Nil where the package cannot be staged, for example in the lower layer of an overlay. It is then deleted in place.
  fileprivate let place: Staging.Place?

  fileprivate init(
    _ package: consuming Descriptor, _ name: CName, _ identity: FileIdentity, in directory: DirectoryHandle,
    _ parent: NodeID, _ credentials: Credentials, _ sidecar: Name?, _ place: Staging.Place?
  ) {
    self.package = package
    self.name = name
    self.identity = identity
    self.directory = directory
    self.parent = parent
    self.credentials = credentials
    self.sidecar = sidecar
    self.place = place
  }
}

extension View {
  /// Checks that the client may remove all parts of a package, and takes the package out of the view in one step. `finish`
  /// deletes the parts.
  ///
  /// - Parameter replaced: the place of a package that another entry has just replaced, by which the next mount puts it back if
  ///   it may not be deleted.
  /// - Throws: the errno of the first check that fails. Nothing has been changed then.
  func beginRemoval(
    _ realName: CName, _ status: stat, in locked: LockedDirectory, replacedIn replaced: ReplacedPlace? = nil,
    _ client: Client
  ) throws(Errno) -> PackageRemoval {
    let (directory, parent) = (locked.handle, locked.node)
    let credentials = client.credentials
    let identity = FileIdentity(status)
    let sidecar = sidecar(of: realName.name, in: locked)
    return try realName.withPointer { (name) throws(Errno) in
      let package = Descriptor(
        adopting: try credentials.impersonate { () throws(Errno) in
          let package = try directory.directory.open(name, O_RDONLY | O_DIRECTORY)
          guard FileIdentity(try fileStatus(package.rawValue)) == identity else { throw .staleNFSFileHandle }
          try directory.directory.check(".", W_OK | X_OK)
          try DirectoryTree.check(status, in: directory.directory.status(), credentials)
          try DirectoryTree.checkRemovable(Directory(descriptor: package.rawValue), credentials)
          return package.release()
        })
      let place: Staging.Place?
      do throws(Errno) {
        let original = replaced ?? ReplacedPlace(name: realName.name, directory: locked)
        let record = Staging.Record(
          credentials: credentials, path: try path(to: original.directory.node) + [original.name])
        place = try stage(name, of: directory, as: .removed(record))
      } catch {
        // A directory in an overlay's lower layer can be deleted but not renamed. A full file system has no room for staging,
        // and a mount with other owners (mount_setattr(2)) may have none that stands for the daemon: neither must prevent a
        // deletion.
        guard [.improperLink, .noSpace, .overflow, Errno(rawValue: EDQUOT)].contains(error) else {
          throw error
        }
        place = nil
      }
      let removal = PackageRemoval(
        package, realName, identity, in: directory, parent, credentials, sidecar, place)
      guard let place else { return removal }
      do throws(Errno) {
        let staged = try CName(place.name).withPointer { (name) throws(Errno) in
          try place.directory.status(name)
        }
        // Another directory may have got this name since the package was opened, and that directory has not been checked.
        guard staged.identifies(identity) else { throw .staleNFSFileHandle }
      } catch {
        restore(removal, locked.view)
        throw error
      }
      noteRemoved(removal, locked.view)
      return removal
    }
  }

  /// Deletes the parts of a package that has been checked. A package of which a part may not be deleted is put back where it was.
  /// Where the machine fails (EIO, for instance), what is left stays in staging, and the next mount deletes it: the package has
  /// left the view as a whole, and half of it is of no use to any client.
  ///
  /// - Parameter locked: the directory, if the calling thread is inside a change of it. Otherwise the calling thread must hold no
  ///   lock.
  /// - Throws: the errno of the refusal; of any failure where the package is deleted in place.
  func finish(_ removal: PackageRemoval, in locked: LockedDirectory? = nil) throws(Errno) {
    try finish(removal, in: locked, mayFail: true) { restore(removal, $0.view) }
  }

  /// Deletes the parts of a package that another entry has replaced. The new entry has the name, so a package of which a part may
  /// not be deleted is put next to it, under a numbered name: the replacement is done in any case.
  ///
  /// - Throws: only where the package is deleted in place.
  func finishReplaced(
    _ removal: PackageRemoval, in locked: LockedDirectory, replacedIn replaced: ReplacedPlace,
    _ client: Client
  ) throws(Errno) {
    do throws(Errno) {
      try finish(removal, in: locked, mayFail: false) { locked in
        guard let place = removal.place else { return }
        let (directory, name) = (replaced.directory, replaced.name)
        let restored = place.restore(to: name, from: 2, in: directory.handle.directory, logger)
        guard let restored else { return }
        moveSidecar(of: removal.name.name, in: locked, to: restored, in: directory, client)
        noteChange([restored], in: directory.node, directory.view)
      }
    } catch { if removal.place == nil { throw error } }
  }

  /// - Parameters:
  ///   - mayFail: whether the package is put back also where the machine fails before a part has been deleted.
  ///   - restoring: puts a package back of which a part may not be deleted.
  private func finish(
    _ removal: PackageRemoval, in locked: LockedDirectory?, mayFail: Bool,
    restoring: (LockedDirectory) -> Void
  ) throws(Errno) {
    var isWhole = true
    func changing(_ body: (LockedDirectory) -> Void) {
      if let locked { return body(locked) }
      do throws(Errno) {
        try self.changing(removal.parent) { (directory) throws(Errno) in body(directory) }
      } catch { body(LockedDirectory(node: removal.parent, handle: removal.directory, view: nil)) }
    }
    do throws(Errno) {
      try removal.credentials.impersonate { () throws(Errno) in
        let package = Directory(descriptor: removal.package.rawValue)
        if removal.place != nil { try DirectoryTree.checkRemovable(package, removal.credentials) }
        isWhole = false
        try DirectoryTree.empty(package) { dropTunnelEntries(of: $0) }
        if removal.place == nil {
          try removal.name.withPointer { (name) throws(Errno) in
            try removal.directory.directory.removeDirectory(name)
          }
        }
      }
      // This runs with the daemon's credentials: `beginRemoval` has checked that the client may remove the directory from its
      // original place, and the directory is empty.
      try removal.place?.removeDirectory()
    } catch {
      guard let place = removal.place, !error.isRefusal, !(mayFail && isWhole) else {
        changing(restoring)
        throw error
      }
      logger.error(
        "\(removal.name.name) could not be deleted completely (\(error)): what is left stays as \(place.name) in \(Staging.name), and the next mount deletes it"
      )
    }
    guard removal.place == nil || removal.sidecar != nil else { return }
    changing { directory in
      if removal.place == nil { noteRemoved(removal, directory.view) }
      if let sidecar = removal.sidecar { removeSidecar(sidecar, in: directory, removal.credentials) }
    }
  }

  private func noteRemoved(_ removal: PackageRemoval, _ view: DirectoryView?) {
    var aliases: AliasKinds = []
    for nodeKind in [NodeKind.plain, .packageFile] {
      removal.name.withPointer {
        aliases.formUnion(
          nodes.didRemove(removal.identity, nodeKind: nodeKind, from: removal.parent, name: $0, isLast: true))
      }
    }
    invalidateOtherAlias(
      aliases, removal.name.name, view?.listedDisplayName(removal.name.name), in: removal.parent,
      mayBeDirectory: true)
    view?.reconcile(removal.name.name)
  }

  private func restore(_ removal: PackageRemoval, _ view: DirectoryView?) {
    guard let place = removal.place else { return }
    let restored = place.restore(to: removal.name.name, in: removal.directory.directory, logger)
    noteChange([removal.name.name] + (restored.map { [$0] } ?? []), in: removal.parent, view)
  }

  /// The real names that lead from SOURCE to a directory.
  private func path(to id: NodeID) throws(Errno) -> [Name] { try links(to: id).map(\.name.name) }
}

/// The place of a package that another entry has replaced, with the directory locked.
struct ReplacedPlace {
  let name: Name
  let directory: LockedDirectory
}

extension Errno {
  /// Whether a client's removal is refused because of what is to be removed, and not because the machine fails.
  var isRefusal: Bool {
    [
      .notPermitted, .permissionDenied, .resourceBusy, .directoryNotEmpty, .isDirectory, .notDirectory,
      .improperLink,
      .tooManySymbolicLinkLevels,
    ].contains(self)
  }
}

// Where this module has no extension of `stat`, Swift 6.3 does not find the one in BackingTree in a build from scratch.
extension stat {
  fileprivate func identifies(_ identity: FileIdentity) -> Bool { FileIdentity(self) == identity }
}
