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
    _ from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ flags: RenameFlags,
    _ client: Client
  ) throws(Errno) -> FileIdentity {
    let (oldName, newName) = (CName(from), CName(to))
    let moved = try oldName.withPointer { (name) throws(Errno) in try old.handle.status(name) }
    func rename(_ flags: RenameFlags) throws(Errno) {
      try renameBacking(oldName, in: old, to: newName, in: new, flags, FileType(mode: moved.st_mode), client)
    }
    var replaced: stat?
    var left: (node: NodeID, state: UnlinkedNodes.LastState)?
    var isDone = false
    if flags == .noReplace || flags.isEmpty && isFree(to, in: new) {
      do throws(Errno) {
        try rename(.noReplace)
        isDone = true
      } catch {
        // Another process has just made an entry of that name, or the file system takes it for another entry's.
        guard error == .fileExists, flags.isEmpty else { throw error }
      }
    }
    if !isDone {
      replaced = newName.withPointer { try? new.handle.status($0) }
      if !flags.contains(.exchange), let replaced {
        left = newName.withPointer { lastState(of: $0, replaced, in: new.handle) }
      }
      try rename(flags)
    }
    // Another process replaced the file just before the call, and its file was moved. The kernel takes that file for the one that
    // it knows.
    let arrived = newName.withPointer { try? new.handle.status($0) }
    if arrived.map(FileIdentity.init) != FileIdentity(moved) {
      invalidateBeforeNextWalk(from, in: old.node)
      invalidateBeforeNextWalk(to, in: new.node)
    }
    keepLastState(left)
    recordRename(moved, (from, oldName), in: old, over: replaced, (to, newName), in: new, flags)
    guard let oldView = old.view, let newView = new.view else { return FileIdentity(moved) }
    // If both names are links of one file, rename(2) keeps both.
    if flags.contains(.exchange) || replaced.map(FileIdentity.init) == FileIdentity(moved) {
      oldView.reconcile(from)
    } else {
      oldView.reconcileRemoved(from)
    }
    // A file system that folds case has replaced an entry, whose spelling it may keep.
    let isRespelled = replaced != nil && newView.projection.slot(realName: to.bytes.span) == nil
    if let arrived { newView.reconcile(to, arrived) } else { newView.reconcile(to) }
    if isRespelled { newView.noteAllChanged() }
    if FileType(mode: moved.st_mode) == .directory { refreshViews(inMoved: FileIdentity(moved)) }
    if let replaced, FileType(mode: replaced.st_mode) == .directory {
      refreshViews(inMoved: FileIdentity(replaced))
    }
    if flags.contains(.exchange) {
      exchangeSidecars(of: from, in: old, with: to, in: new, client)
    } else {
      moveSidecar(of: from, in: old, to: to, in: new, client)
    }
    moveNetatalkFile(of: from, in: old, to: to, in: new, flags, client)
    return FileIdentity(moved)
  }

  /// Whether a directory has no entry of that name, as far as its view shows.
  private func isFree(_ name: Name, in directory: LockedDirectory) -> Bool {
    directory.view.map { $0.isWatched && $0.projection.slot(realName: name.bytes.span) == nil } ?? false
  }

  private func renameBacking(
    _ from: CName, in old: LockedDirectory, to: CName, in new: LockedDirectory, _ flags: RenameFlags,
    _ type: FileType, _ client: Client
  ) throws(Errno) {
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        func act() throws(Errno) {
          try client.impersonateWithAnySetID { () throws(Errno) in
            try old.handle.directory.rename(from, to: new.handle.directory, to, flags)
          }
        }
        do throws(Errno) {
          // An exchange produces four events.
          if flags.contains(.exchange) { return try act() }
          try cached.suppressingSelfEvents(
            (old.node, .movedAway, from), (new.node, .movedHere, to), body: act)
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
  private func recordRename(
    _ moved: stat, _ from: (name: Name, c: CName), in old: LockedDirectory, over replaced: stat?,
    _ to: (name: Name, c: CName), in new: LockedDirectory, _ flags: RenameFlags
  ) {
    let (oldLink, newLink) = ((old.node, from.c), (new.node, to.c))
    correctNames(of: moved, from: oldLink, to: newLink)
    var aliases: (moved: AliasKinds, replaced: AliasKinds) = ([], [])
    if let replaced {
      if !flags.contains(.exchange) {
        dropTunnelEntries(of: FileIdentity(replaced))
        expireOtherNames(of: replaced)
      }
      let isLast = replaced.st_nlink <= 1 || FileType(mode: replaced.st_mode) == .directory
      for nodeKind in nodeKinds(of: replaced) {
        aliases.replaced.formUnion(
          flags.contains(.exchange)
            ? nodes.didMove(FileIdentity(replaced), nodeKind: nodeKind, from: newLink, to: oldLink)
            : to.c.withPointer {
              nodes.didRemove(
                FileIdentity(replaced), nodeKind: nodeKind, from: new.node, name: $0, isLast: isLast)
            })
      }
    }
    for nodeKind in nodeKinds(of: moved) {
      aliases.moved.formUnion(
        nodes.didMove(FileIdentity(moved), nodeKind: nodeKind, from: oldLink, to: newLink))
    }
    invalidateOtherAlias(
      aliases.moved, from.name, old.view?.listedDisplayName(from.name), in: old.node,
      mayBeDirectory: FileType(mode: moved.st_mode) == .directory,
      node: aliases.moved.areSeveral ? nodes.node(of: FileIdentity(moved)) : nil)
    invalidateOtherAlias(
      aliases.replaced, to.name, new.view?.listedDisplayName(to.name), in: new.node,
      mayBeDirectory: replaced.map { FileType(mode: $0.st_mode) == .directory } ?? false)
  }

  private func nodeKinds(of status: stat) -> [NodeKind] { NodeKind.kinds(of: FileType(mode: status.st_mode)) }

  /// Removes the entry that a moved entry has replaced: a package with all its content, a directory only if it is empty.
  ///
  /// - Parameters:
  ///   - identity: that of the entry. Another one that a process has put in its place since stays.
  ///   - place: where the entry was before it was replaced.
  func removeReplaced(
    _ name: Name, _ type: ApparentType?, _ identity: FileIdentity?, in directory: LockedDirectory,
    replacedIn place: ReplacedPlace, _ client: Client
  ) throws(Errno) {
    let cName = CName(name)
    let status: stat
    do throws(Errno) {
      status = try cName.withPointer { (name) throws(Errno) in try directory.handle.status(name) }
    } catch {
      guard error == .noSuchFileOrDirectory else { throw error }
      return
    }
    guard FileIdentity(status) == identity else { return }
    switch type {
    case .package:
      let removal = try beginRemoval(cName, status, in: directory, replacedIn: place, client)
      try finishReplaced(removal, in: directory, replacedIn: place, client)
    case .directory: try removeEmptyDirectory(name, in: directory, client)
    default: try removeFile(name, status, in: directory, client)
    }
  }
}
