import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Gives a node one more name. (`link`)
  public func link(
    _ id: NodeID, to parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) -> Entry {
    let location = nodes.location(of: id)
    if location?.facet == .packageFile { throw .notPermitted }
    // Checks the directory, too. The source is looked at before the directory is locked.
    let located = try locateLinked(id, to: parent, caller)
    let type = FileType(mode: try fileStatus(located.rawValue).st_mode)
    let source = linkSource(at: location, type == .regular ? .file : .special, typed: Name(copying: name))
    let companion = location.flatMap { companionOfLinked($0) }
    if location != nil { try refuseAltering(id) }
    let stale = location.map { staleNames(of: $0) } ?? []
    return try preparing(name, in: parent) { (name) throws(Errno) in
      try refuseMaking(EntryInspector.kind(of: type), name)
      let (directory, typed) = (name.directory.handle, name.typed)
      let remembered = recall(typed, in: parent, caller: caller)
      let plan = CreatePlan.link(
        source, typed: typed, sameDirectory: location?.parent == parent,
        remembered: remembered?.realName, in: destination(name.directory))
      guard case .create(let real, _) = plan else {
        if case .refuse(let error) = plan { throw error }
        throw .invalidArgument
      }
      let realName = CName(real)
      try realName.withPointer { (name) throws(Errno) in
        // The source was checked by its descriptor: a link by that descriptor cannot be diverted by a rename.
        _ = try caller.act { () throws(Errno) in
          try systemCall { dfs_empty_path_link(located.rawValue, directory.directory.descriptor, name) }
        }
      }
      cached.noteOwnChange(in: parent)
      if let remembered, real == remembered.realName { forgetRemembered(typed, in: parent, caller: caller) }
      cached.noteMade(typed, in: parent)
      name.directory.view?.reconcile(real)
      // LINK does not say which name of the node the client gave, so the kernel must look up a file with several links each time.
      invalidate(stale)
      if let companion {
        linkCompanion(companion.name, in: companion.directory, to: real, in: name.directory, caller)
      }
      return try entry(
        Found(
          directory: directory, realName: realName, status: try fileStatus(located.rawValue), facet: .plain),
        in: parent, byRealName: real == typed)
    }
  }

  /// A descriptor of a link's source, reached by the name that the client gave.
  ///
  /// - Throws: ESTALE once, so that the kernel walks both paths again, if the kernel may know the node by both of its names or by
  ///   one that the node has lost, or if the directory may have been moved; then ENOENT.
  private func locateLinked(_ id: NodeID, to parent: NodeID, _ caller: Caller) throws(Errno) -> Descriptor {
    let isRetry = refusedLinks.take(by: caller.process) != nil
    do throws(Errno) {
      if !isRetry {
        try refuseIfMoved(parent, caller)
        if caller.process != 0, nodes.aliases(of: id).areSeveral { throw .staleNFSFileHandle }
      }
      // A file without a name (O_TMPFILE) gets its first name.
      return try locate(id, byNameOf: nodes.location(of: id) == nil ? nil : caller)
    } catch {
      guard error == .staleNFSFileHandle else { throw error }
      // The kernel walks a path at most twice, and another client has removed the name since.
      if isRetry { throw .noSuchFileOrDirectory }
      refusedLinks.noteRefusal(of: [], by: caller.process)
      throw error
    }
  }

  /// The source of a LINK request, which carries the node but not the name that led to it.
  ///
  /// The kernel looks the name up right before it links, so the source's name is the one by which the node was last looked up.
  private func linkSource(
    at location: NodeTable.Location?, _ type: ApparentType, typed: Name
  ) -> RenameSource {
    let real = location?.name.name ?? typed
    let plain = RenameSource(realName: real, displayName: real, addressing: .realName, facet: type)
    guard !isPlainMirror, let location, !location.wasGivenByRealName,
      let view = try? directoryView(location.parent)
    else { return plain }
    let resolved: RenameSource? = try? view.withCurrent { (projection) throws(Errno) -> RenameSource? in
      guard let slot = projection.slot(realName: real.bytes.span) else { return nil }
      let addressing: Addressing =
        switch projection.rung(of: slot) {
        case .localized: .localized
        case .extensionHidden: .hiddenExtension
        case .realName: .realName
        }
      return RenameSource(
        realName: real, displayName: projection.displayName(at: slot), addressing: addressing, facet: type)
    }
    return resolved ?? plain
  }
}
