import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Renames an entry. `RenamePlan` decides about the real names; this method carries out the plan.
  public func rename(
    _ oldParent: NodeID, _ oldName: UnsafePointer<CChar>, to newParent: NodeID,
    _ newName: UnsafePointer<CChar>,
    flags: RenameFlags, caller: Caller
  ) throws(Errno) {
    try refuseIfMoved(oldParent, newParent, caller)
    let oldHandle = try directory(oldParent)
    let newHandle = try directory(newParent)
    guard flags.isSubset(of: [.noReplace, .exchange]) else { throw .invalidArgument }
    func renamePlainly() throws(Errno) {
      let from = CName(copying: oldName)
      let to = CName(copying: newName)
      try refuseMoving(from.name, isDirectory: true, from: oldParent, to: newParent, over: to.name)
      try execute(from, in: oldHandle, oldParent, to, in: newHandle, newParent, flags, views: nil, caller)
      cached.noteMade(to.name, in: newParent)
    }
    if isPlainMirror { return try renamePlainly() }
    let oldView = try directoryView(oldParent)
    let newView = try directoryView(newParent)
    var moved: (name: Name, source: Resolved)?
    var isDone = false
    try DirectoryView.changing(oldView, newView) { (areReadable) throws(Errno) in
      guard areReadable else {
        // The names in a directory that can be searched but not read are real names.
        if options.hidden == .deny { throw .permissionDenied }
        try renamePlainly()
        for view in [oldView, newView] { view.noteEverything() }
        return
      }
      guard let source = resolve(oldName, in: oldView) else { throw .noSuchFileOrDirectory }
      let typedOld = Name(copying: oldName)
      let typed = Name(copying: newName)
      let existing = resolve(newName, in: newView)
      if existing == nil { try refuseIfDenied(typed, in: newView) }
      try refuseMoving(
        source.child.realName, isDirectory: source.child.isDirectory, from: oldParent, to: newParent,
        over: existing?.child.realName)
      let remembered = existing == nil ? recall(typed, in: newParent, caller: caller) : nil
      var isSame = false
      if let existing { isSame = try isSameFile(source, in: oldHandle, existing, in: newHandle) }
      // A package is not replaced by an entry from inside it: more would be removed than the client named.
      if let existing, existing.facet == .packageFile,
        let package = existing.realName.withPointer({ try? FileIdentity(newHandle.status($0)) }),
        nodes.isBelow(oldParent, package)
      {
        throw .invalidArgument
      }
      let target = RenameTarget(
        typed: typed,
        existing: existing.map {
          RenameTarget.Existing(realName: $0.child.realName, isSource: isSame, facet: $0.apparentType)
        },
        sameDirectory: oldView === newView, remembered: remembered?.realName)
      let plan = RenamePlan.plan(
        renameSource(source, typed: typedOld, in: oldView), to: target, flags: flags, in: destination(newView)
      )
      var movedIdentity: FileIdentity?
      let existingIdentity = existing.flatMap { existing in
        existing.realName.withPointer { try? FileIdentity(newHandle.status($0)) }
      }
      let memory = memory(of: source, typed: typedOld, in: oldHandle, oldParent, caller)
      let riding = riding(of: existing, in: newHandle, caller: caller)
      let views = (oldView, newView)
      func move(_ from: Name, _ to: Name, _ flags: RenameFlags) throws(Errno) {
        let identity = try execute(
          CName(from), in: oldHandle, oldParent, CName(to), in: newHandle, newParent, flags, views: views,
          caller)
        if movedIdentity == nil { movedIdentity = identity }
      }
      switch plan {
      case .nothing:
        // The kernel renames its dentry nevertheless.
        invalidate(typedOld, in: oldParent)
        invalidate(typed, in: newParent)
        return
      case .refuse(let error): throw error
      case .move(let from, let to, let exclusive):
        try move(from, to, exclusive || existing == nil && options.hidden == .deny ? .noReplace : [])
        if let remembered, to == remembered.realName {
          restore(remembered.attributes, to: CName(to), in: newHandle, caller: caller)
          forgetRemembered(typed, in: newParent, caller: caller)
        } else if source.child.kind == .file {
          restore(riding, to: CName(to), in: newHandle, caller: caller)
        }
      case .moveThenRemove(let from, let to, let remove):
        // If the daemon stops after the first step, both entries are there.
        try move(from, to, .noReplace)
        do throws(Errno) {
          try removeReplaced(remove, existing?.apparentType, in: newHandle, newParent, newView, caller)
        } catch {
          _ = try? execute(
            CName(to), in: newHandle, newParent, CName(from), in: oldHandle, oldParent, .noReplace,
            views: (newView, oldView), caller)
          throw error
        }
      case .exchangeThenRemove(let from, let to):
        try move(from, to, .exchange)
        do throws(Errno) {
          try removeReplaced(from, existing?.apparentType, in: oldHandle, oldParent, oldView, caller)
        } catch {
          try? move(from, to, .exchange)
          throw error
        }
      case .exchange(let from, let with): try move(from, with, .exchange)
      }
      cached.noteMade(typed, in: newParent)
      // A client that types the hidden extension wants to see it ("What you see is what you type").
      if source.byDisplayName, typedOld != source.child.realName, let name = plan.newName, name == typed {
        showExtension(of: name, in: newHandle, newView, caller)
      }
      if source.child.isDirectory, let name = plan.newName, let movedIdentity {
        noteApplication(name, movedIdentity)
      }
      if flags.contains(.exchange) {
        invalidate(typedOld, in: oldParent)
        invalidate(typed, in: newParent)
      } else if let name = plan.newName, let movedIdentity {
        noteNewName(typed, of: name, movedIdentity, source.facet, in: newParent, newView)
      }
      // The kernel may know a package's directory by its real name too, and does not know that this name is gone.
      if source.facet == .packageFile {
        if let movedIdentity { nodes.movedUnseen(movedIdentity) }
        invalidate(source.child.realName, in: oldParent)
      }
      if let existing, existing.facet == .packageFile {
        if let existingIdentity { nodes.movedUnseen(existingIdentity) }
        invalidate(existing.child.realName, in: newParent)
      }
      // An exchange removes no name.
      if !flags.contains(.exchange) { remember(memory, caller: caller) }
      isDone = true
      moved = plan.newName.map { ($0, source) }
    }
    if isDone {
      noteMarker(Name(copying: newName), in: newParent)
      noteMarker(Name(copying: oldName), in: oldParent)
    }
    // Programs that save safely write under a hidden name first. A package's stream is imported now that it is visible.
    if importsPackages, let (name, source) = moved, source.child.kind == .file, source.child.hidden != nil,
      let status = CName(name).withPointer({ try? newHandle.status($0) })
    {
      importPackage(at: newParent, realName: CName(name), identity: FileIdentity(status), caller: caller)
    }
  }

  /// After a RENAME the kernel keeps the dentry of the old name under the typed name. Invalidates the typed name if it does not
  /// stand for the moved entry.
  private func noteNewName(
    _ typed: Name, of realName: Name, _ identity: FileIdentity, _ facet: Facet, in parent: NodeID,
    _ view: DirectoryView
  ) {
    let resolved = CName(typed).withPointer { resolve($0, in: view.projection) }
    // The new name may have made a package of a directory, or a directory of a package.
    if let resolved, resolved.child.realName == realName, resolved.facet == facet {
      nodes.renamed(identity, facet: resolved.facet, byRealName: typed == realName)
    } else {
      invalidate(typed, in: parent)
    }
  }

  /// Clears the flag that hides an entry's extension, in the store that holds the flag ("What you see is what you type", Mac OS X
  /// 10.1 release notes).
  private func showExtension(
    of name: Name, in handle: DirectoryHandle, _ view: DirectoryView, _ caller: Caller
  ) {
    guard inspector.metadata.isThere, FileExtension.stemLength(of: name.bytes.span) != nil else { return }
    do throws(Errno) {
      try inspector.metadata.set(.hidesExtension, to: false, of: name, in: handle.directory, caller: caller)
      view.reconcile(name)
    } catch {
      logger.notice("\(name): its Finder info cannot be changed to show its extension: \(error)")
    }
  }

  /// Performs one renameat2, and updates all records of the names.
  ///
  /// - Returns: the identity of the entry that was to be moved.
  @discardableResult
  private func execute(
    _ from: CName, in oldHandle: DirectoryHandle, _ oldParent: NodeID, _ to: CName,
    in newHandle: DirectoryHandle,
    _ newParent: NodeID, _ flags: RenameFlags, views: (DirectoryView, DirectoryView)?, _ caller: Caller
  ) throws(Errno) -> FileIdentity {
    let moved = try from.withPointer { (name) throws(Errno) in try oldHandle.status(name) }
    let replaced = to.withPointer { try? newHandle.status($0) }
    let left =
      flags.contains(.exchange)
      ? nil : replaced.flatMap { replaced in to.withPointer { remains(of: $0, replaced, in: newHandle) } }
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        func act() throws(Errno) {
          do throws(Errno) {
            try caller.actWithoutSetID { () throws(Errno) in
              try oldHandle.directory.rename(from, to: newHandle.directory, to, flags)
            }
          } catch {
            if error == .improperLink, FileType(mode: moved.st_mode) == .directory, oldHandle === newHandle {
              logger.notice(
                "\(Name(copying: from)) cannot be renamed in place, as it lies in the lower layer of an overlay: copy it, then remove the original"
              )
            }
            throw error
          }
        }
        // An exchange produces four events.
        if flags.contains(.exchange) { return try act() }
        try cached.unheard((oldParent, .movedAway, from), (newParent, .movedHere, to), body: act)
      }
    }
    // Another process replaced the file just before the call, and its file was moved. The kernel takes that file for the one that
    // it knows.
    let arrived = to.withPointer { try? newHandle.status($0) }
    if arrived.map(FileIdentity.init) != FileIdentity(moved) {
      invalidate(from.name, in: oldParent)
      invalidate(to.name, in: newParent)
    }
    let (old, new) = ((oldParent, from), (newParent, to))
    keep(left)
    correctNames(of: moved, from: old, to: new)
    var given: (moved: AliasKinds, replaced: AliasKinds) = ([], [])
    from.withPointer { from in
      to.withPointer { to in
        if let replaced {
          if !flags.contains(.exchange) {
            forgetTunnel(of: FileIdentity(replaced))
            expireOtherNames(of: replaced)
          }
          for facet in [Facet.plain, .packageFile] {
            given.replaced.formUnion(
              flags.contains(.exchange)
                ? nodes.moved(FileIdentity(replaced), facet: facet, from: new, to: old)
                : nodes.removed(
                  FileIdentity(replaced), facet: facet, from: newParent, name: to,
                  isLast: replaced.st_nlink <= 1 || FileType(mode: replaced.st_mode) == .directory))
          }
        }
        for facet in [Facet.plain, .packageFile] {
          given.moved.formUnion(nodes.moved(FileIdentity(moved), facet: facet, from: old, to: new))
        }
      }
    }
    let isDirectory = FileType(mode: moved.st_mode) == .directory
    noteGone(
      given.moved, from.name, views?.0.shownName(from.name), in: oldParent, mayBeDirectory: isDirectory,
      node: given.moved.areSeveral ? nodes.node(of: FileIdentity(moved)) : nil)
    let isReplacedDirectory = replaced.map { FileType(mode: $0.st_mode) == .directory } ?? false
    noteGone(
      given.replaced, to.name, views?.1.shownName(to.name), in: newParent,
      mayBeDirectory: isReplacedDirectory)
    guard let views else { return FileIdentity(moved) }
    // If both names are links of one file, rename(2) keeps both.
    if flags.contains(.exchange) || replaced.map(FileIdentity.init) == FileIdentity(moved) {
      views.0.reconcile(from.name)
    } else {
      views.0.reconcileRemoved(from.name)
    }
    if let arrived { views.1.reconcile(to.name, arrived) } else { views.1.reconcile(to.name) }
    // The place and the name of a directory decide how its content is shown, so the views of a moved directory are refreshed.
    let isDirectoryMoved = [moved, replaced].contains {
      $0.map { FileType(mode: $0.st_mode) == .directory } ?? false
    }
    if isDirectoryMoved {
      let identities = [moved, replaced].compactMap { $0.map(FileIdentity.init) }
      if isShownOtherwise(from, in: views.0, than: to, in: views.1) {
        invalidateAllNames(in: cachedDirectories(below: identities), waits: false)
      }
      lookAgain { id in identities.contains { nodes.isBelow(id, $0) } }
    }
    let oldPlace = CompanionPlace(directory: oldHandle, id: oldParent, view: views.0)
    let newPlace = CompanionPlace(directory: newHandle, id: newParent, view: views.1)
    if flags.contains(.exchange) {
      exchangeCompanions(of: from.name, in: oldPlace, with: to.name, in: newPlace, caller)
    } else {
      moveCompanion(of: from.name, in: oldPlace, to: to.name, in: newPlace, caller)
    }
    moveNetatalkFile(of: from.name, in: oldPlace, to: to.name, in: newPlace, flags, caller)
    return FileIdentity(moved)
  }

  /// Whether the content of a directory may have different display names in the two places.
  private func isShownOtherwise(
    _ name: CName, in view: DirectoryView, than other: CName, in otherView: DirectoryView
  ) -> Bool {
    inspector.options.dependOnPath || view.site.place != otherView.site.place
      || [name, other].contains { $0.withPointer { inspector.mayBePackage($0) } }
  }

  /// Removes the entry that a moved entry has replaced: a package with all its content, a directory only if it is empty.
  private func removeReplaced(
    _ name: Name, _ type: ApparentType?, in handle: DirectoryHandle, _ parent: NodeID, _ view: DirectoryView,
    _ caller: Caller
  ) throws(Errno) {
    let cName = CName(name)
    let status = try cName.withPointer { (name) throws(Errno) in try handle.status(name) }
    switch type {
    case .package:
      try finish(beginRemoval(cName, status, in: handle, parent, view, caller), locked: (view, true))
    case .directory: try removeEmptyDirectory(cName, in: handle, parent, view, caller)
    default: try removeFile(cName, status, in: handle, parent, view, caller)
    }
  }

  private func isSameFile(
    _ a: Resolved, in first: DirectoryHandle, _ b: Resolved, in second: DirectoryHandle
  ) throws(Errno) -> Bool {
    let left = try a.realName.withPointer { (name) throws(Errno) in try first.status(name) }
    let right = try b.realName.withPointer { (name) throws(Errno) in try second.status(name) }
    return FileIdentity(left) == FileIdentity(right)
  }

  private func renameSource(_ resolved: Resolved, typed: Name, in view: DirectoryView) -> RenameSource {
    let addressing: Addressing
    if typed == resolved.child.realName {
      addressing = .realName
    } else {
      addressing = view.projection.rung(of: resolved.slot) == .localized ? .localized : .hiddenExtension
    }
    return RenameSource(
      realName: resolved.child.realName, displayName: typed, addressing: addressing,
      facet: resolved.apparentType)
  }

  /// The source of a LINK request, which carries the node but not the name that led to it.
  ///
  /// The kernel looks the name up right before it links, so the source's name is the one by which the node was last looked up.
  func renameSource(at location: NodeTable.Location, facet: ApparentType) -> RenameSource {
    let real = location.name.name
    let plain = RenameSource(realName: real, displayName: real, addressing: .realName, facet: facet)
    guard !isPlainMirror, !location.wasGivenByRealName, let view = try? directoryView(location.parent) else {
      return plain
    }
    let resolved: RenameSource? = try? view.withCurrent { (projection) throws(Errno) -> RenameSource? in
      guard let slot = projection.slot(realName: real.bytes.span) else { return nil }
      let addressing: Addressing =
        switch projection.rung(of: slot) {
        case .localized: .localized
        case .extensionHidden: .hiddenExtension
        case .realName: .realName
        }
      return RenameSource(
        realName: real, displayName: projection.displayName(at: slot), addressing: addressing, facet: facet)
    }
    return resolved ?? plain
  }
}

extension Resolved {
  /// The type of the entry as seen by the client that gave the name.
  var apparentType: ApparentType {
    switch child.kind {
    case .file: .file
    case .directory: .directory
    case .package: facet == .packageFile ? .package : .directory
    case .symlink, .other: .special
    }
  }
}
