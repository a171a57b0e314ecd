import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Invalidation of what a change made stale in the kernel's caches.
///
/// A change through the mount leaves the kernel with stale dentries of the names that the change did not use: the other name of
/// the same entry, and names that entries beside it gained or lost. They are invalidated before the next path walk through
/// their directory (``KernelCache/invalidateBeforeNextWalk(_:)``). The daemon learns of a change of the backing tree later than
/// it happens, so those names are invalidated as soon as possible.
extension View {
  // MARK: After changes through the mount

  /// Invalidates names that a change through the mount made stale, before the reply to the change.
  func invalidate(_ names: [StaleName]) {
    guard !names.isEmpty, let kernel = cached.kernel else { return }
    kernel.invalidateBeforeNextWalk(names)
  }

  /// The same for a name that may have led to an entry of any type.
  func invalidate(_ name: Name, in directory: NodeID) {
    invalidate([StaleName(name, in: directory, mayBeDirectory: true)])
  }

  /// Invalidates the names by which the kernel may know an entry, because what they stand for changes. Called with no directory
  /// view locked.
  func invalidateNames(of location: NodeTable.Location) { invalidate(staleNames(of: location)) }

  /// The names by which the kernel may know an entry: its real name, its display name as of the last look at the directory, and
  /// its current display name. Called with no directory view locked.
  func staleNames(of location: NodeTable.Location) -> [StaleName] {
    let real = location.name.name
    var all: Set<Name> = [real]
    if let last = directoryViews.view(of: location.parent)?.lastShownName(real) { all.insert(last) }
    if let shown = shownName(real, in: location.parent) { all.insert(shown) }
    return all.map {
      StaleName($0, in: location.parent, mayBeDirectory: location.type == .directory)
    }
  }

  /// Called after a change through one name of an entry took that name away. The kernel drops the dentry of the name that was
  /// used by itself; this invalidates the other one.
  ///
  /// - Parameters:
  ///   - given: the kinds of names by which the kernel may know the entry.
  ///   - shown: its display name before the change; nil where it was not listed.
  ///   - node: the entry's node if it lives on under another name.
  func noteGone(
    _ given: AliasKinds, _ real: Name, _ shown: Name?, in parent: NodeID, mayBeDirectory: Bool,
    node: NodeID? = nil
  ) {
    cached.noteOwnChange(in: parent)
    guard given.areSeveral else { return }
    invalidate(
      names(real, shown).map { StaleName($0, in: parent, mayBeDirectory: mayBeDirectory, node: node) })
  }

  private func names(_ real: Name, _ shown: Name?) -> [Name] {
    guard let shown, shown != real else { return [real] }
    return [real, shown]
  }

  /// Invalidates all names in some directories, because their entries may be shown differently now: after a change of options
  /// or of a `.hidden` file, or below a moved directory.
  ///
  /// - Parameter waits: see `staleNames`.
  func invalidateAllNames(in directories: [CachedDirectory], waits: Bool) {
    invalidate(staleNames(in: Set(directories.map(\.node)), waits: waits))
  }

  /// The names under which the kernel may know any entry of a directory. Called with no directory view locked.
  public func staleNames(inDirectory id: NodeID) -> [StaleName] { staleNames(in: [id], waits: true) }

  /// Records whether the kernel looks up the name that a client gave, even if it renames the dentry meanwhile.
  public func noteNamesStable(_ areStable: Bool) {
    movedNodes.areNamesStable.store(areStable, ordering: .relaxed)
  }

  /// Records that a thread has walked a path on which the kernel may have resolved a stale name to one of these nodes. They
  /// live on under other names.
  public func noteStaleWalk(to nodes: Set<NodeID>, by thread: pid_t) {
    movedNodes.noteStaleWalk(to: nodes, by: thread)
  }

  /// Whether a name leads to a directory that the kernel knows.
  public func leadsToKnownDirectory(_ name: Name, in directory: NodeID) -> Bool {
    guard let handle = try? self.directory(directory) else { return false }
    return CName(name).withPointer { name in
      guard let found = try? find(directory, handle, name), found.facet == .plain else { return false }
      return FileType(mode: found.status.st_mode) == .directory
        && nodes.node(of: FileIdentity(found.status)) != nil
    }
  }

  /// The cached directories that are, or lie below, the directory of one of these identities.
  func cachedDirectories(below identities: [FileIdentity]) -> [CachedDirectory] {
    cached.all.filter { directory in identities.contains { nodes.isBelow(directory.node, $0) } }
  }

  // MARK: After directory views were dropped

  /// Invalidates the display names of views that are no longer kept up to date.
  ///
  /// Descriptors may run out while a worker has one of these views locked for a client. Such a view is left to the change loop,
  /// which holds no lock.
  func forgetDisplayNames(of views: [DirectoryView], isFollowing: Bool = false) {
    guard !views.isEmpty, let kernel = cached.kernel else { return }
    for view in views {
      if let names = view.displayNames(waits: isFollowing) {
        kernel.invalidate(names)
      } else {
        changes.isLetGo(view)
      }
    }
  }

  // MARK: After changes of the backing tree

  /// Invalidates what the watch reported as changed. Called by the change loop alone.
  func expireOutdated() {
    guard let kernel = cached.kernel else { return }
    for directory in cached.takeNews() {
      let news = directory.takeNews()
      if news.isEverything {
        let isThere = isThere(directory.node)
        // After a FORGET the kernel caches nothing of the directory, and the node's number may belong to another node by now.
        if cached.remove(directory.node, ifStill: directory) {
          expireEverything(in: [directory.node], absent: directory.takeAbsent(), kernel, areThere: isThere)
        }
        continue
      }
      if news.isItselfChanged { expireAttributes(of: directory.node, kernel) }
      let handle = try? self.directory(directory.node)
      for name in news.names { expire(name, in: directory, handle, kernel) }
      for name in news.contents.subtracting(news.names) {
        expireAttributes(of: name, in: directory.node, handle, kernel)
      }
    }
    for directory in cached.removeSurplus() {
      expireEverything(in: [directory.node], absent: directory.takeAbsent(), kernel)
    }
  }

  /// Whether a directory is still at its place and not removed.
  private func isThere(_ id: NodeID) -> Bool {
    guard nodes.location(of: id) != nil, let handle = try? directory(id) else { return false }
    return (try? fileStatus(handle.directory.descriptor))?.st_nlink != 0
  }

  /// Called when the entry of that name appeared, disappeared or was replaced.
  private func expire(
    _ name: Name, in directory: CachedDirectory, _ handle: DirectoryHandle?, _ kernel: any KernelCache
  ) {
    let id = directory.node
    let known = [Facet.plain, .packageFile].compactMap { facet in
      CName(name).withPointer { nodes.node(at: id, $0, facet: facet) }
    }
    let status = handle.flatMap { handle in CName(name).withPointer { try? handle.status($0) } }
    let node = status.flatMap { nodes.node(of: FileIdentity($0)) }
    // The content may have changed in the same moment.
    for node in Set(known + [node].compactMap { $0 }) { kernel.expireAttributes(of: node, in: id) }
    let isInPlace =
      if let status, let node, let location = nodes.location(of: node) {
        location.parent == id && location.isOf(status) && location.name.name == name
          && nodes.aliases(of: node).contains(.real)
      } else { false }
    // The kernel knows the right place of an entry that was made through the mount by this name.
    if !directory.takeAbsent(name), isInPlace { return }
    let mayBeDirectory =
      status.map { FileType(mode: $0.st_mode) == .directory } ?? false
      || known.contains { nodes.location(of: $0)?.type == .directory }
    kernel.invalidate([StaleName(name, in: id, mayBeDirectory: mayBeDirectory)])
  }

  private func expireAttributes(
    of name: Name, in id: NodeID, _ handle: DirectoryHandle?, _ kernel: any KernelCache
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
    for facet in [Facet.plain, .packageFile] {
      guard let node = nodes.node(of: FileIdentity(status), facet: facet) else { continue }
      // Must come first: from then on no reply permits the kernel to cache the attributes.
      openNodes.ignoreModifications(of: node)
      kernel.expireAttributes(of: node, in: id)
    }
    // A directory's attributes may make it a package.
    if FileType(mode: status.st_mode) == .directory { kernel.invalidate([stale]) }
  }

  private func expireAttributes(of directory: NodeID, _ kernel: any KernelCache) {
    kernel.expireAttributes(of: directory, in: nodes.location(of: directory)?.parent)
  }

  /// Invalidates all that the kernel may cache of some directories.
  ///
  /// - Parameter areThere: false for a removed directory, which was emptied name by name before.
  private func expireEverything(
    in directories: Set<NodeID>, absent: Set<Name>, _ kernel: any KernelCache, areThere: Bool = true
  ) {
    for id in directories {
      expireAttributes(of: id, kernel)
      kernel.invalidate(absent.map { StaleName($0, in: id, mayBeDirectory: true) })
    }
    for (node, location) in nodes.located(in: directories) {
      kernel.expireAttributes(of: node, in: location.parent)
    }
    if areThere { kernel.invalidate(staleNames(in: directories, waits: true)) }
  }

  /// The names under which the kernel may know any entry of some directories, as of the last look at each.
  ///
  /// - Parameter waits: whether to wait for threads that use one of the directories. A thread that itself has a directory view
  ///   locked must not wait: display names of a locked view are left out, and invalidated when the view is refreshed.
  private func staleNames(in directories: Set<NodeID>, waits: Bool) -> [StaleName] {
    guard !directories.isEmpty else { return [] }
    var result = nodes.located(in: directories).map { _, location in
      StaleName(location.name.name, in: location.parent, mayBeDirectory: location.type == .directory)
    }
    for id in directories {
      result += directoryViews.view(of: id)?.displayNames(waits: waits) ?? []
      result +=
        cached.directory(id)?.takeAbsent().map { StaleName($0, in: id, mayBeDirectory: true) } ?? []
    }
    return result
  }

  /// Invalidates names that, after changes of the backing tree, stand for another entry or for none.
  func expireNames(_ changes: [ViewChange]) {
    guard let kernel = cached.kernel else { return }
    func expire(_ item: ListedItem) { kernel.invalidate([item.staleName]) }
    for change in changes {
      switch change {
      case .appeared(let item), .vanished(let item): expire(item)
      case .renamed(let old, let new):
        expire(old)
        expire(new)
      case .written, .attributes: break
      }
    }
  }
}

extension ListedItem {
  var staleName: StaleName {
    StaleName(name, in: directory, mayBeDirectory: backingType == .directory)
  }
}
