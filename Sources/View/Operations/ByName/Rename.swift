import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Renames an entry. `RenamePlan` decides about the real names; this method carries out the plan.
  package func rename(
    _ oldParent: NodeID, _ oldName: UnsafePointer<CChar>, to newParent: NodeID,
    _ newName: UnsafePointer<CChar>,
    flags: RenameFlags, client: Client
  ) throws(Errno) {
    guard flags.isSubset(of: [.noReplace, .exchange]) else { throw .invalidArgument }
    try refuseIfMoved(oldParent, newParent, client)
    let renamed = try retryingAfterRelease { () throws(Errno) in
      try renameOnce(oldParent, oldName, to: newParent, newName, flags, client)
    }
    guard let renamed else { return }
    noteMarker(newName, in: newParent)
    noteMarker(oldName, in: oldParent)
    if let (name, directory) = renamed.revealed { importRevealed(name, in: directory, newParent, client) }
  }

  /// - Returns: nil where no more is to be done.
  private func renameOnce(
    _ oldParent: NodeID, _ oldName: UnsafePointer<CChar>, to newParent: NodeID,
    _ newName: UnsafePointer<CChar>, _ flags: RenameFlags, _ client: Client
  ) throws(Errno) -> Renamed? {
    try preparing(oldName, in: oldParent, newName, in: newParent) {
      (old, new) throws(Errno) -> Renamed? in
      guard let newView = new.directory.view else {
        try renameReal(old, new, flags, client)
        return nil
      }
      let source = try old.existing()
      let existing = flags.isEmpty ? new.entry(unlessRenamedFrom: old) : new.entry
      try refuseIfDenied(source.kind.isDirectory ? .directory : source.kind, new)
      if flags.contains(.exchange), let existing {
        try refuseIfDenied(existing.kind.isDirectory ? .directory : existing.kind, old)
      }
      let renameSource = renameSource(source, old)
      try refuseMoving(
        renameSource.realName, isDirectory: source.kind.isDirectory, from: oldParent, to: newParent,
        over: existing?.realName.name)
      let replaced = try existing.map { (entry) throws(Errno) in try identity(of: entry, in: new.directory) }
      // A package is not replaced by an entry from inside it: more would be removed than the client named.
      if existing?.nodeKind == .packageFile, let replaced, nodes.isBelow(oldParent, [replaced]) {
        throw .invalidArgument
      }
      let tunnelled = existing == nil ? recall(new.typed, in: newParent, client: client) : nil
      let plan = RenamePlan.plan(
        renameSource,
        to: RenameTarget(
          typed: new.typed,
          existing: try existing.map { (existing) throws(Errno) in
            RenameTarget.Existing(
              realName: existing.realName.name,
              isSource: try identity(of: source, in: old.directory) == replaced,
              apparentType: existing.apparentType)
          },
          sameDirectory: old.directory.view === newView, tunnelled: tunnelled?.realName),
        flags: flags, in: destination(new.directory))
      let memory = tunnelMemory(of: old, client)
      guard let moved = try carryOut(plan, source, existing, replaced, old, new, tunnelled, client) else {
        // The kernel renames its dentry nevertheless.
        invalidateBeforeNextWalk(old.typed, in: oldParent)
        invalidateBeforeNextWalk(new.typed, in: newParent)
        return nil
      }
      noteRenamed(renameSource, source, moved, as: plan.newName, old, new, client)
      if let existing, let replaced { noteUnseen(existing, replaced, in: newParent) }
      // An exchange removes no name.
      if !flags.contains(.exchange) { recordInTunnel(memory, client: client) }
      guard packages.areImported, let newName = plan.newName, source.kind == .file, source.isHidden else {
        return Renamed(revealed: nil)
      }
      return Renamed(revealed: (newName, new.directory.handle))
    }
  }

  /// A rename that was made.
  private struct Renamed {
    /// The new name of a file that was hidden, if it may be the stream of a package.
    let revealed: (name: Name, directory: DirectoryHandle)?
  }

  /// The names in a mirror, and in a directory that can be searched but not read, are real names.
  private func renameReal(
    _ old: PreparedName, _ new: PreparedName, _ flags: RenameFlags, _ client: Client
  ) throws(Errno) {
    let (oldParent, newParent) = (old.directory.node, new.directory.node)
    try refuseMoving(old.typed, isDirectory: true, from: oldParent, to: newParent, over: new.typed)
    try move(old.typed, in: old.directory, to: new.typed, in: new.directory, flags, client)
    cached.noteMade(new.typed, in: newParent)
    for parent in [oldParent, newParent] { currentView(of: parent)?.noteAllChanged() }
  }

  /// Carries out a plan.
  ///
  /// - Parameter replaced: the identity of `existing`.
  /// - Returns: the identity of the entry that was moved; nil if the plan is to do nothing.
  private func carryOut(
    _ plan: RenamePlan, _ source: Resolved, _ existing: Resolved?, _ replaced: FileIdentity?,
    _ old: PreparedName, _ new: PreparedName, _ tunnelled: Tunnel.Remembered?, _ client: Client
  ) throws(Errno) -> FileIdentity? {
    func move(_ from: Name, _ to: Name, _ flags: RenameFlags) throws(Errno) -> FileIdentity {
      try self.move(from, in: old.directory, to: to, in: new.directory, flags, client)
    }
    switch plan {
    case .noChange: return nil
    case .refuse(let error): throw error
    case .move(let from, let to, let exclusive):
      let metadata = source.kind == .file ? metadataToTransfer(of: existing, in: new.directory, client) : []
      let moved = try transferring(
        metadata, to: from, in: old.directory, becoming: to, in: new.directory, client
      ) {
        () throws(Errno) in
        try move(from, to, exclusive || existing == nil && options.hidden == .deny ? .noReplace : [])
      }
      if let tunnelled, to == tunnelled.realName {
        restore(tunnelled.attributes, to: CName(to), in: new.directory.handle, client: client)
        dropTunnelled(new.typed, in: new.directory.node, client: client)
      }
      return moved
    case .moveThenRemove(let from, let to, let remove):
      // If the daemon stops after the first step, both entries are there.
      let moved = try move(from, to, .noReplace)
      do throws(Errno) {
        try removeReplaced(
          remove, existing?.apparentType, replaced, in: new.directory,
          replacedIn: ReplacedPlace(name: remove, directory: new.directory), client)
      } catch {
        _ = try? self.move(
          to, in: new.directory, to: from, in: old.directory, .noReplace, client)
        throw error
      }
      return moved
    case .exchangeThenRemove(let from, let to):
      let moved = try move(from, to, .exchange)
      do throws(Errno) {
        try removeReplaced(
          from, existing?.apparentType, replaced, in: old.directory,
          replacedIn: ReplacedPlace(name: to, directory: new.directory), client)
      } catch {
        _ = try? move(from, to, .exchange)
        throw error
      }
      return moved
    case .exchange(let from, let with): return try move(from, with, .exchange)
    }
  }

  /// Records what a rename means for the names of the moved entry.
  ///
  /// - Parameter newName: its new real name; nil after an exchange.
  private func noteRenamed(
    _ renamed: RenameSource, _ source: Resolved, _ moved: FileIdentity, as newName: Name?,
    _ old: PreparedName, _ new: PreparedName,
    _ client: Client
  ) {
    let (oldParent, newParent, typed) = (old.directory.node, new.directory.node, new.typed)
    cached.noteMade(typed, in: newParent)
    if let newName {
      // A client that types the hidden extension wants to see it ("What you see is what you type").
      if renamed.addressing == .hiddenExtension, newName == typed {
        showExtension(of: newName, in: new.directory, client)
      }
      if source.kind.isDirectory { noteApplication(newName, moved) }
      noteNewName(newName, moved, source.nodeKind, new)
    } else {
      invalidateBeforeNextWalk(old.typed, in: oldParent)
      invalidateBeforeNextWalk(typed, in: newParent)
    }
    noteUnseen(source, moved, in: oldParent)
  }

  /// Called for an entry that was moved or replaced. The kernel may know a package's directory by its real name too, and does not
  /// know that this name is gone.
  private func noteUnseen(_ entry: Resolved, _ identity: FileIdentity, in parent: NodeID) {
    guard entry.nodeKind == .packageFile else { return }
    nodes.didMoveBehindKernel(identity)
    invalidateBeforeNextWalk(entry.realName.name, in: parent)
  }

  /// After a RENAME the kernel keeps the dentry of the old name under the typed name. Invalidates the typed name if it does not
  /// stand for the moved entry.
  private func noteNewName(
    _ realName: Name, _ identity: FileIdentity, _ nodeKind: NodeKind, _ new: PreparedName
  ) {
    let resolved = new.directory.view.flatMap { resolve(new.bytes, in: $0.projection) }
    // The new name may have made a package of a directory, or a directory of a package. A name that is only equal to one of the
    // entry's names must not stay for as long as the old name might.
    if let resolved, !resolved.isMatch, resolved.realName.equals(realName), resolved.nodeKind == nodeKind {
      nodes.didRenameDentry(identity, nodeKind: nodeKind, byRealName: new.typed == realName)
    } else {
      invalidateBeforeNextWalk(new.typed, in: new.directory.node)
    }
  }

  /// Clears the flag that hides an entry's extension, in the store that holds the flag ("What you see is what you type", Mac OS X
  /// 10.1 release notes).
  private func showExtension(of name: Name, in directory: LockedDirectory, _ client: Client) {
    guard inspector.metadata.isPresent, FileExtension.stemLength(of: name.bytes.span) != nil else { return }
    do throws(Errno) {
      try inspector.metadata.set(
        .hidesExtension, to: false, of: name, in: directory.handle.directory, client: client)
      directory.view?.reconcile(name)
    } catch {
      logger.notice("\(name): its Finder info cannot be changed to show its extension: \(error)")
    }
  }

  /// Programs that save safely write under a hidden name first. A package's stream is imported when a rename makes it visible.
  private func importRevealed(
    _ name: Name, in directory: DirectoryHandle, _ parent: NodeID, _ client: Client
  ) {
    let name = CName(name)
    guard let status = name.withPointer({ try? directory.status($0) }) else { return }
    importPackage(
      at: parent, realName: name, identity: FileIdentity(status), client: client, isMadeByClient: true)
  }

  private func identity(of entry: Resolved, in directory: LockedDirectory) throws(Errno) -> FileIdentity {
    FileIdentity(
      try entry.realName.withPointer { (name) throws(Errno) in try directory.handle.status(name) })
  }

  private func renameSource(_ source: Resolved, _ name: PreparedName) -> RenameSource {
    var addressing = Addressing.realName
    var stemLength: Int?
    var isComposed = false
    let realName = source.realName.name
    if source.byDisplayName, !source.realName.equals(name.bytes), let slot = source.slot {
      switch name.directory.view?.projection.rung(of: slot) {
      case .localized: addressing = .localized
      case .extensionHidden:
        addressing = .hiddenExtension
        stemLength = name.directory.view?.projection.child(at: slot)?.stemLength
        isComposed = !source.isMatch && realName.composed != realName
      case .composed: isComposed = !source.isMatch
      case .realName, nil: break
      }
    }
    return RenameSource(
      realName: realName, displayName: name.typed, addressing: addressing,
      apparentType: source.apparentType, stemLength: stemLength, isComposed: isComposed)
  }
}
