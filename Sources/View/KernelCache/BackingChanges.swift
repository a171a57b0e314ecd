import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Invalidation of what a change of the backing tree made stale in the kernel's caches. The change loop does that.
extension View {
  /// Invalidates what the watch reported as changed. Called by the change loop alone.
  func expireOutdated(_ changed: [DirectoryChanges.LoopWork]) {
    guard let kernel = cached.kernel else { return }
    for changed in changed {
      // After a FORGET the kernel caches nothing of the directory, and the node's number may belong to another node by now.
      guard let directory = cached.directory(changed.directory.node),
        directory.changes === changed.directory
      else { continue }
      invalidate(changed.stale, in: directory, kernel)
    }
    for directory in cached.removeSurplus() {
      invalidateEverything(in: directory, kernel)
    }
  }

  private func invalidate(
    _ stale: PendingChanges.Stale, in directory: WatchedDirectory, _ kernel: any KernelCacheInvalidator
  ) {
    let id = directory.node
    if stale.isEverything {
      let isReachable = isReachable(id)
      if cached.remove(id, ifStill: directory) {
        invalidateEverything(in: directory, kernel, isReachable: isReachable)
      }
      return
    }
    if stale.haveAttributesChanged { expireAttributes(of: id, kernel) }
    let handle = try? self.directory(id)
    for name in stale.names {
      invalidate(name, in: directory, handle, kernel)
      CName(name).withPointer { noteMarker($0, in: id) }
    }
    for name in stale.contents.subtracting(stale.names) {
      expireAttributes(of: name, in: id, handle, kernel)
    }
  }

  /// Whether a directory is still at its place and not removed.
  private func isReachable(_ id: NodeID) -> Bool {
    guard nodes.link(of: id) != nil, let handle = try? directory(id) else { return false }
    return (try? fileStatus(handle.directory.descriptor))?.st_nlink != 0
  }

  /// Called when the entry of that name appeared, disappeared or was replaced.
  private func invalidate(
    _ name: Name, in directory: WatchedDirectory, _ handle: DirectoryHandle?,
    _ kernel: any KernelCacheInvalidator
  ) {
    let id = directory.node
    let known = NodeKind.allCases.compactMap { nodeKind in
      CName(name).withPointer { nodes.node(at: id, $0, nodeKind: nodeKind) }
    }
    let status = handle.flatMap { handle in CName(name).withPointer { try? handle.status($0) } }
    let node = status.flatMap { nodes.node(of: FileIdentity($0)) }
    // The content may have changed in the same moment.
    for node in Set(known + [node].compactMap { $0 }) { kernel.expireAttributes(of: node, in: id) }
    let isInPlace =
      if let status, let node, let link = nodes.link(of: node) {
        link.parent == id && link.matches(status) && link.name.name == name
          && nodes.aliases(of: node).contains(.real)
      } else { false }
    let absent = directory.negativeEntries(equalTo: name, by: options.matching)
    directory.invalidate(absent, in: kernel)
    // The kernel knows the right place of an entry that was made through the mount by this name.
    if isInPlace || absent.contains(where: { $0.name == name }) { return }
    let mayBeDirectory =
      status.map { FileType(mode: $0.st_mode) == .directory } ?? false
      || known.contains { nodes.link(of: $0)?.type == .directory }
    kernel.invalidate([StaleName(name, in: id, mayBeDirectory: mayBeDirectory)])
  }

  private func expireAttributes(
    of name: Name, in id: NodeID, _ handle: DirectoryHandle?, _ kernel: any KernelCacheInvalidator
  ) {
    let stale = StaleName(name, in: id, mayBeDirectory: true)
    guard let handle else { return kernel.invalidate([stale]) }
    let status: stat
    do throws(Errno) {
      status = try CName(name).withPointer { (name) throws(Errno) in try handle.status(name) }
    } catch {
      // The watch reports a removal as an event of its own.
      if error != .noSuchFileOrDirectory { kernel.invalidate([stale]) }
      return
    }
    for nodeKind in NodeKind.allCases {
      guard let node = nodes.node(of: FileIdentity(status), nodeKind: nodeKind) else { continue }
      // Must come first: from then on no reply permits the kernel to cache the attributes.
      openNodes.suppressModifications(of: node)
      kernel.expireAttributes(of: node, in: id)
    }
    // A directory's attributes may make it a package.
    if FileType(mode: status.st_mode) == .directory { kernel.invalidate([stale]) }
  }

  private func expireAttributes(of directory: NodeID, _ kernel: any KernelCacheInvalidator) {
    kernel.expireAttributes(of: directory, in: nodes.link(of: directory)?.parent)
  }

  /// Invalidates all that the kernel may cache of a directory.
  ///
  /// - Parameter isReachable: false for a removed directory, which was emptied name by name before.
  private func invalidateEverything(
    in directory: WatchedDirectory, _ kernel: any KernelCacheInvalidator, isReachable: Bool = true
  ) {
    let id = directory.node
    expireAttributes(of: id, kernel)
    directory.invalidate(directory.allNegativeEntries, in: kernel)
    for (node, link) in nodes.children(of: [id]) {
      kernel.expireAttributes(of: node, in: link.parent)
    }
    if isReachable { kernel.invalidate(staleNames(in: [id], waits: true)) }
  }

  /// Invalidates names that, after changes of the backing tree, stand for another entry or for none.
  func invalidateNames(_ changes: [ViewChange]) {
    guard let kernel = cached.kernel else { return }
    func invalidate(_ item: ListingEntry) {
      if let directory = cached.directory(item.directory) {
        directory.invalidate(directory.negativeEntries(equalTo: item.name, by: options.matching), in: kernel)
      }
      kernel.invalidate([item.staleName])
    }
    for change in changes {
      switch change {
      case .appeared(let item), .vanished(let item): invalidate(item)
      case .renamed(let old, let new):
        invalidate(old)
        invalidate(new)
      case .written, .attributes: break
      }
    }
  }
}

extension ListingEntry {
  var staleName: StaleName {
    StaleName(name, in: directory, mayBeDirectory: backingType == .directory)
  }
}
