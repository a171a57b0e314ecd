import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// Gives a node one more name. (`link`)
  package func link(
    _ id: NodeID, to parent: NodeID, _ name: UnsafePointer<CChar>, client: Client
  ) throws(Errno) -> Entry {
    let link = nodes.link(of: id)
    if let link, link.nodeKind != .plain { throw .notPermitted }
    // Checks the directory, too. The source is looked at before the directory is locked.
    let located = try locateLinked(id, to: parent, client)
    let type = FileType(mode: try fileStatus(located.rawValue).st_mode)
    let source = linkSource(at: link, type == .regular ? .file : .special, typed: Name(copying: name))
    let sidecar = link.flatMap { sidecarOfLinked($0) }
    if link != nil { try refuseAltering(id) }
    let stale = link.map { staleNames(of: $0) } ?? []
    return try preparing(name, in: parent) { (name) throws(Errno) in
      try refuseMaking(EntryInspector.kind(of: type), name)
      let (directory, typed) = (name.directory.handle, name.typed)
      let tunnelled = recall(typed, in: parent, client: client)
      let plan = CreatePlan.link(
        source, typed: typed, sameDirectory: link?.parent == parent,
        tunnelled: tunnelled?.realName, in: destination(name.directory))
      guard case .create(let real, _) = plan else {
        if case .refuse(let error) = plan { throw error }
        throw .invalidArgument
      }
      let realName = CName(real)
      try realName.withPointer { (name) throws(Errno) in
        // The source was checked by its descriptor: a link by that descriptor cannot be diverted by a rename.
        try changes.own.preserving(located.rawValue) { () throws(Errno) in
          _ = try client.impersonate { () throws(Errno) in
            try systemCall { dfs_empty_path_link(located.rawValue, directory.directory.descriptor, name) }
          }
        }
      }
      cached.noteOwnChange(in: parent)
      if let tunnelled, real == tunnelled.realName { dropTunnelled(typed, in: parent, client: client) }
      cached.noteMade(typed, in: parent)
      name.directory.view?.reconcile(real)
      // LINK does not say which name of the node the client gave, so the kernel must look up a file with several links each time.
      invalidateBeforeNextWalk(stale)
      if let sidecar {
        linkSidecar(sidecar.name, in: sidecar.directory, to: real, in: name.directory, client)
      }
      return try entry(
        Found(
          directory: directory, realName: realName, status: try fileStatus(located.rawValue),
          nodeKind: .plain,
          byRealName: real == typed),
        in: parent)
    }
  }

  /// A descriptor of a link's source, reached by the name that the client gave.
  ///
  /// - Throws: ESTALE once, so that the kernel walks both paths again, if the kernel may know the node by both of its names or by
  ///   one that the node has lost, or if the directory may have been moved; then ENOENT.
  private func locateLinked(_ id: NodeID, to parent: NodeID, _ client: Client) throws(Errno) -> Descriptor {
    let isRetry = walks.linkRetries.take(by: client.thread) != nil
    do throws(Errno) {
      if !isRetry {
        try refuseIfMoved(parent, client)
        if client.thread != 0, nodes.aliases(of: id).areSeveral { throw .staleNFSFileHandle }
      }
      // A file without a name (O_TMPFILE) gets its first name.
      return try locate(id, namedBy: nodes.link(of: id) == nil ? nil : client)
    } catch {
      guard error == .staleNFSFileHandle else { throw error }
      // The kernel walks a path at most twice, and another client has removed the name since.
      if isRetry { throw .noSuchFileOrDirectory }
      walks.linkRetries.noteRefusal(of: [], by: client.thread)
      try refuse([id, parent], client)
    }
  }

  /// The source of a LINK request, which carries the node but not the name that led to it.
  ///
  /// The kernel looks the name up right before it links, so the source's name is the one by which the node was last looked up.
  private func linkSource(
    at link: NodeTable.Link?, _ type: ApparentType, typed: Name
  ) -> RenameSource {
    let real = link?.name.name ?? typed
    let plain = RenameSource(realName: real, displayName: real, addressing: .realName, apparentType: type)
    guard !isPlainMirror, let link, !link.wasFoundByRealName,
      let view = try? directoryView(link.parent)
    else { return plain }
    let resolved: RenameSource? = try? view.withCurrent { (projection) throws(Errno) -> RenameSource? in
      guard let slot = projection.slot(realName: real.bytes.span) else { return nil }
      let addressing: Addressing =
        switch projection.rung(of: slot) {
        case .localized: .localized
        case .extensionHidden: .hiddenExtension
        case .composed, .realName: .realName
        }
      return RenameSource(
        realName: real, displayName: projection.displayName(at: slot), addressing: addressing,
        apparentType: type, stemLength: projection.child(at: slot)?.stemLength)
    }
    return resolved ?? plain
  }
}
