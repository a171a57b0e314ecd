import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// An AppleDouble sidecar `._x` holds the metadata that a Macintosh keeps of `x` beside its data. It moves with `x`.
///
/// A sidecar follows after the operation on its entry has succeeded. If it cannot, that is logged and is no error.
extension View {
  /// The AppleDouble sidecar of an entry: `._x` with the format's magic number. Any other `._x` is an ordinary hidden file.
  ///
  /// - Parameter other: another name of the entry, if it is just being renamed.
  func sidecar(of name: Name, or other: Name? = nil, in place: LockedDirectory) -> Name? {
    guard let view = place.view, view.hasSidecars, let exact = name.sidecar,
      let candidate = view.hasSidecar(name)
        ? exact : equalSidecar(exact, of: [name, other].compactMap(\.self), in: view),
      let slot = view.projection.slot(realName: candidate.bytes.span),
      view.projection.summary(at: slot)?.kind == .file
    else { return nil }
    return FinderMetadata.isAppleDouble(candidate, in: place.handle.directory) ? candidate : nil
  }

  /// The one sidecar with a name that is only equal to `exact`, by which a Mac that composes or folds names finds it. It stays
  /// where it is if it could also accompany another entry.
  private func equalSidecar(_ exact: Name, of names: [Name], in view: DirectoryView) -> Name? {
    guard case .one(let match) = view.projection.matches(of: exact.bytes.span) else { return nil }
    let sidecar = view.projection.realName(at: match.slot)
    guard let owner = sidecar.sidecarOwner, view.projection.slot(realName: owner.bytes.span) == nil,
      !view.projection.hasMatch(of: owner.bytes.span, besides: names)
    else { return nil }
    return sidecar
  }

  /// Moves the sidecar after a rename, over one of the replaced entry. If the renamed entry has none, that one now belongs to it.
  func moveSidecar(
    of from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ client: Client
  ) {
    let isSameDirectory = old.view === new.view
    guard let sidecar = sidecar(of: from, or: isSameDirectory ? to : nil, in: old), let exact = to.sidecar
    else {
      return
    }
    let replaced = self.sidecar(of: to, in: new)
    // After a change of case the sidecar itself is found.
    let target = isSameDirectory && replaced == sidecar ? exact : replaced ?? exact
    if isSameDirectory, target == sidecar { return }
    // An ordinary file with the sidecar's name stays. Where the backing tree folds case, the sidecar itself has that name.
    let isTaken = new.view?.projection.slot(realName: target.bytes.span) != nil
    let isOwnInOtherForm = isSameDirectory && !isTaken && target.isCaselessMatch(of: sidecar)
    let isFree = target == replaced || isOwnInOtherForm
    rename(sidecar, in: old, to: target, in: new, isFree ? [] : .noReplace, client)
  }

  /// Moves the sidecars after two entries were exchanged.
  func exchangeSidecars(
    of from: Name, in old: LockedDirectory, with: Name, in new: LockedDirectory, _ client: Client
  ) {
    guard let newFirst = from.sidecar, let newSecond = with.sidecar else { return }
    switch (sidecar(of: from, in: old), sidecar(of: with, in: new)) {
    case (nil, nil): break
    case (let first?, let second?): rename(first, in: old, to: second, in: new, .exchange, client)
    case (let first?, nil): rename(first, in: old, to: newSecond, in: new, .noReplace, client)
    case (nil, let second?): rename(second, in: new, to: newFirst, in: old, .noReplace, client)
    }
  }

  /// Links the sidecar after a hard link was made: both names stand for one file, and both sidecars do too.
  ///
  /// - Parameter sidecar: the result of `sidecarOfLinked` from before.
  func linkSidecar(
    _ sidecar: Name, in old: DirectoryHandle, to: Name, in new: LockedDirectory, _ client: Client
  ) {
    guard let target = to.sidecar else { return }
    loggingFailure(of: sidecar) { () throws(Errno) in
      try CName(sidecar).withPointer { (from) throws(Errno) in
        try CName(target).withPointer { (to) throws(Errno) in
          let credentials = client.credentials
          // As the kernel, which lets no user link a file of another that this user may not write. (`protected_hardlinks`)
          let file = try old.locate(from)
          try credentials.checkAccess(R_OK | W_OK, to: file.rawValue)
          try credentials.impersonate { () throws(Errno) in
            try old.directory.link(from, to: new.handle.directory, to)
          }
        }
      }
      noteChange([target], in: new.node, new.view)
    }
  }

  /// The sidecar of a file that is about to get another link. Called with no directory view locked.
  func sidecarOfLinked(_ link: NodeTable.Link) -> (name: Name, directory: DirectoryHandle)? {
    guard !isPlainMirror, let view = try? directoryView(link.parent) else { return nil }
    let place = LockedDirectory(node: link.parent, handle: view.handle, view: view)
    let found = try? view.withCurrent { (_) throws(Errno) in sidecar(of: link.name.name, in: place) }
    return found.flatMap { $0 }.map { ($0, view.handle) }
  }

  /// Removes the sidecar after its entry was removed.
  ///
  /// - Parameter sidecar: the result of `sidecar(of:in:)` from before.
  func removeSidecar(_ sidecar: Name, in place: LockedDirectory, _ credentials: Credentials) {
    loggingFailure(of: sidecar) { () throws(Errno) in
      try CName(sidecar).withPointer { (name) throws(Errno) in
        let status = try place.handle.status(name)
        try credentials.checkRemoval(of: status, from: place.handle.directory)
        try credentials.impersonate { () throws(Errno) in try place.handle.directory.unlink(name) }
        let aliases = nodes.didRemove(
          FileIdentity(status), nodeKind: .plain, from: place.node, name: name, isLast: status.st_nlink <= 1)
        noteChange([sidecar], in: place.node, place.view, isKnown: !aliases.isEmpty)
      }
    }
  }

  private func rename(
    _ from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ flags: RenameFlags,
    _ client: Client
  ) {
    loggingFailure(of: from) { () throws(Errno) in
      try CName(from).withPointer { (fromName) throws(Errno) in
        try CName(to).withPointer { (toName) throws(Errno) in
          let moved = try old.handle.status(fromName)
          let replaced = try? new.handle.status(toName)
          let credentials = client.credentials
          try credentials.checkRemoval(of: moved, from: old.handle.directory)
          if let replaced { try credentials.checkRemoval(of: replaced, from: new.handle.directory) }
          try credentials.impersonate { () throws(Errno) in
            try old.handle.directory.rename(fromName, to: new.handle.directory, toName, flags)
          }
          let (oldPlace, newPlace) = ((old.node, CName(from)), (new.node, CName(to)))
          var aliases: AliasKinds = []
          if let replaced {
            aliases =
              flags.contains(.exchange)
              ? nodes.didMove(FileIdentity(replaced), nodeKind: .plain, from: newPlace, to: oldPlace)
              : nodes.didRemove(
                FileIdentity(replaced), nodeKind: .plain, from: new.node, name: toName,
                isLast: replaced.st_nlink <= 1)
          }
          aliases.formUnion(
            nodes.didMove(FileIdentity(moved), nodeKind: .plain, from: oldPlace, to: newPlace))
          noteChange([from], in: old.node, old.view, isKnown: !aliases.isEmpty)
          noteChange([to], in: new.node, new.view, isKnown: false)
        }
      }
    }
  }

  private func loggingFailure(of sidecar: Name, _ body: () throws(Errno) -> Void) {
    do throws(Errno) { try body() } catch {
      logger.warning("\(sidecar) could not be moved along with its file: \(error)")
    }
  }
}

extension Name {
  /// The name of the AppleDouble sidecar of an entry with this name. Nil for a sidecar, which has none of its own, and for a name
  /// that is too long to add the prefix.
  var sidecar: Name? {
    guard sidecarOwner == nil, bytes.count <= 253 else { return nil }
    return Name(Array("._".utf8) + bytes)
  }

  /// The name of the entry whose AppleDouble sidecar a file of this name would be.
  var sidecarOwner: Name? {
    guard bytes.count > 2, bytes[0] == 0x2e, bytes[1] == 0x5f else { return nil }
    return Name(bytes.dropFirst(2))
  }
}
