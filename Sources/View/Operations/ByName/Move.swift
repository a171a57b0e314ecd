import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The steps of a rename: one renameat2(2) each, with all that the daemon and the kernel know of the names.
extension View {
  /// Performs one renameat2, and updates all records of the names.
  ///
  /// - Returns: the identity of the entry that was to be moved.
  @discardableResult
  func move(
    _ from: CName, in old: LockedDirectory, to: CName, in new: LockedDirectory, _ flags: RenameFlags,
    _ caller: Caller
  ) throws(Errno) -> FileIdentity {
    let moved = try from.withPointer { (name) throws(Errno) in try old.handle.status(name) }
    let replaced = to.withPointer { try? new.handle.status($0) }
    let left =
      flags.contains(.exchange)
      ? nil : replaced.flatMap { replaced in to.withPointer { remains(of: $0, replaced, in: new.handle) } }
    try renameBacking(from, in: old, to: to, in: new, flags, FileType(mode: moved.st_mode), caller)
    // Another process replaced the file just before the call, and its file was moved. The kernel takes that file for the one that
    // it knows.
    let arrived = to.withPointer { try? new.handle.status($0) }
    if arrived.map(FileIdentity.init) != FileIdentity(moved) {
      invalidate(from.name, in: old.node)
      invalidate(to.name, in: new.node)
    }
    keep(left)
    noteMoved(moved, from, in: old, over: replaced, to, in: new, flags)
    guard let oldView = old.view, let newView = new.view else { return FileIdentity(moved) }
    // If both names are links of one file, rename(2) keeps both.
    if flags.contains(.exchange) || replaced.map(FileIdentity.init) == FileIdentity(moved) {
      oldView.reconcile(from.name)
    } else {
      oldView.reconcileRemoved(from.name)
    }
    if let arrived { newView.reconcile(to.name, arrived) } else { newView.reconcile(to.name) }
    // The place and the name of a directory decide how its content is shown, so the views of a moved directory are refreshed.
    let moves = [moved, replaced].compactMap { $0 }
    if moves.contains(where: { FileType(mode: $0.st_mode) == .directory }) {
      let identities = moves.map(FileIdentity.init)
      if isShownOtherwise(from, in: oldView, than: to, in: newView) {
        invalidateAllNames(in: cachedDirectories(below: identities), waits: false)
      }
      lookAgain { id in identities.contains { nodes.isBelow(id, $0) } }
    }
    if flags.contains(.exchange) {
      exchangeCompanions(of: from.name, in: old, with: to.name, in: new, caller)
    } else {
      moveCompanion(of: from.name, in: old, to: to.name, in: new, caller)
    }
    moveNetatalkFile(of: from.name, in: old, to: to.name, in: new, flags, caller)
    return FileIdentity(moved)
  }

  private func renameBacking(
    _ from: CName, in old: LockedDirectory, to: CName, in new: LockedDirectory, _ flags: RenameFlags,
    _ type: FileType, _ caller: Caller
  ) throws(Errno) {
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        func act() throws(Errno) {
          try caller.actWithoutSetID { () throws(Errno) in
            try old.handle.directory.rename(from, to: new.handle.directory, to, flags)
          }
        }
        do throws(Errno) {
          // An exchange produces four events.
          if flags.contains(.exchange) { return try act() }
          try cached.unheard((old.node, .movedAway, from), (new.node, .movedHere, to), body: act)
        } catch {
          if error == .improperLink, type == .directory, old.handle === new.handle {
            logger.notice(
              "\(Name(copying: from)) cannot be renamed in place, as it lies in the lower layer of an overlay: copy it, then remove the original"
            )
          }
          throw error
        }
      }
    }
  }

  /// Records in the node table where the entries are now, and invalidates the names by which the kernel still knows them.
  private func noteMoved(
    _ moved: stat, _ from: CName, in old: LockedDirectory, over replaced: stat?, _ to: CName,
    in new: LockedDirectory, _ flags: RenameFlags
  ) {
    let (oldPlace, newPlace) = ((old.node, from), (new.node, to))
    correctNames(of: moved, from: oldPlace, to: newPlace)
    var given: (moved: AliasKinds, replaced: AliasKinds) = ([], [])
    if let replaced {
      if !flags.contains(.exchange) {
        forgetTunnel(of: FileIdentity(replaced))
        expireOtherNames(of: replaced)
      }
      let isLast = replaced.st_nlink <= 1 || FileType(mode: replaced.st_mode) == .directory
      for facet in [Facet.plain, .packageFile] {
        given.replaced.formUnion(
          flags.contains(.exchange)
            ? nodes.moved(FileIdentity(replaced), facet: facet, from: newPlace, to: oldPlace)
            : to.withPointer {
              nodes.removed(FileIdentity(replaced), facet: facet, from: new.node, name: $0, isLast: isLast)
            })
      }
    }
    for facet in [Facet.plain, .packageFile] {
      given.moved.formUnion(nodes.moved(FileIdentity(moved), facet: facet, from: oldPlace, to: newPlace))
    }
    noteGone(
      given.moved, from.name, old.view?.shownName(from.name), in: old.node,
      mayBeDirectory: FileType(mode: moved.st_mode) == .directory,
      node: given.moved.areSeveral ? nodes.node(of: FileIdentity(moved)) : nil)
    noteGone(
      given.replaced, to.name, new.view?.shownName(to.name), in: new.node,
      mayBeDirectory: replaced.map { FileType(mode: $0.st_mode) == .directory } ?? false)
  }

  /// Whether the content of a directory may have different display names in the two places.
  private func isShownOtherwise(
    _ name: CName, in view: DirectoryView, than other: CName, in otherView: DirectoryView
  ) -> Bool {
    inspector.options.dependOnPath || view.site.place != otherView.site.place
      || [name, other].contains { $0.withPointer { inspector.mayBePackage($0) } }
  }

  /// Removes the entry that a moved entry has replaced: a package with all its content, a directory only if it is empty.
  func removeReplaced(
    _ name: Name, _ type: ApparentType?, in directory: LockedDirectory, _ caller: Caller
  ) throws(Errno) {
    let cName = CName(name)
    let status = try cName.withPointer { (name) throws(Errno) in try directory.handle.status(name) }
    switch type {
    case .package: try finish(beginRemoval(cName, status, in: directory, caller), in: directory)
    case .directory: try removeEmptyDirectory(cName, in: directory, caller)
    default: try removeFile(cName, status, in: directory, caller)
    }
  }
}
