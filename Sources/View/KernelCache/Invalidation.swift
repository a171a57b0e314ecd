import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Invalidation of what a change made stale in the kernel's caches.
///
/// A change through the mount leaves the kernel with stale dentries of the names that the change did not use: the other name of
/// the same entry, and names that entries beside it gained or lost. They are invalidated before the next path walk through
/// their directory (``KernelCacheInvalidator/invalidateBeforeNextWalk(_:)``). The daemon learns of a change of the backing tree
/// later than it happens, so those names are invalidated as soon as possible.
extension View {
  // MARK: After changes through the mount

  /// Invalidates names that a change through the mount made stale, before the reply to the change.
  func invalidateBeforeNextWalk(_ names: [StaleName]) {
    guard !names.isEmpty, let kernel = cached.kernel else { return }
    kernel.invalidateBeforeNextWalk(names)
  }

  /// The same for a name that may have led to an entry of any type.
  func invalidateBeforeNextWalk(_ name: Name, in directory: NodeID) {
    invalidateBeforeNextWalk([StaleName(name, in: directory, mayBeDirectory: true)])
  }

  /// Invalidates the names by which the kernel may know an entry, because what they stand for changes. Called with no directory
  /// view locked.
  func invalidateNames(of link: NodeTable.Link) { invalidateBeforeNextWalk(staleNames(of: link)) }

  /// The names by which the kernel may know an entry: its real name, its display name as of the last look at the directory, and
  /// its current display name. Called with no directory view locked.
  func staleNames(of link: NodeTable.Link) -> [StaleName] {
    let real = link.name.name
    var all: Set<Name> = [real]
    if let last = directories.views.view(of: link.parent)?.lastDisplayName(real) { all.insert(last) }
    if let shown = listedDisplayName(real, in: link.parent) { all.insert(shown) }
    return all.map {
      StaleName($0, in: link.parent, mayBeDirectory: link.type == .directory)
    }
  }

  /// Called after a change through one name of an entry took that name away. The kernel drops the dentry of the name that was
  /// used by itself; this invalidates the other one.
  ///
  /// - Parameters:
  ///   - aliases: the kinds of names by which the kernel may know the entry.
  ///   - shown: its display name before the change, which the directory view does not show yet; nil where it was not listed.
  ///   - node: the entry's node if it lives on under another name.
  func invalidateOtherAlias(
    _ aliases: AliasKinds, _ real: Name, _ shown: @autoclosure () -> Name?, in parent: NodeID,
    mayBeDirectory: Bool, node: NodeID? = nil
  ) {
    cached.noteOwnChange(in: parent)
    guard aliases.areSeveral else { return }
    invalidateBeforeNextWalk(
      names(real, shown()).map { StaleName($0, in: parent, mayBeDirectory: mayBeDirectory, node: node) })
  }

  private func names(_ real: Name, _ shown: Name?) -> [Name] {
    guard let shown, shown != real else { return [real] }
    return [real, shown]
  }

  /// Invalidates all names in some directories, because their entries may be shown differently now: after a change of options
  /// or of a `.hidden` file, or below a moved directory.
  ///
  /// - Parameter waits: see `staleNames`.
  func invalidateAllNames(in directories: [WatchedDirectory], waits: Bool) {
    let absent = directories.map { ($0, $0.allNegativeEntries) }
    invalidateBeforeNextWalk(staleNames(in: Set(directories.map(\.node)), waits: waits))
    for (directory, entries) in absent { directory.removeNegativeEntries(entries) }
  }

  /// The names under which the kernel may know any entry of a directory. Called with no directory view locked.
  package func staleNames(inDirectory id: NodeID) -> [StaleName] { staleNames(in: [id], waits: true) }

  /// The names under which the kernel may know any entry of some directories, as of the last look at each.
  ///
  /// - Parameter waits: whether to wait for threads that use one of the directories. A thread that itself has a directory view
  ///   locked must not wait: display names of a locked view are left out, and invalidated when the view is refreshed.
  func staleNames(in ids: Set<NodeID>, waits: Bool) -> [StaleName] {
    guard !ids.isEmpty else { return [] }
    var result = nodes.children(of: ids).map { _, link in
      StaleName(link.name.name, in: link.parent, mayBeDirectory: link.type == .directory)
    }
    for id in ids {
      result += directories.views.view(of: id)?.displayNames(waits: waits) ?? []
      result += cached.directory(id)?.allNegativeEntries.map { StaleName($0, in: id) } ?? []
    }
    return result
  }

  /// Whether the kernel looks up the name that a client gave, even if it renames the dentry meanwhile.
  package var areLookupNamesStable: Bool { walks.moved.areLookupNamesStable.load(ordering: .relaxed) }

  package func setLookupNamesStable(_ areStable: Bool) {
    walks.moved.areLookupNamesStable.store(areStable, ordering: .relaxed)
  }

  /// Records that a thread has walked a path on which the kernel may have resolved a stale name to one of these nodes. They
  /// live on under other names.
  package func noteStaleWalk(to nodes: Set<NodeID>, by thread: pid_t) {
    walks.moved.noteStaleWalk(to: nodes, by: thread)
  }

  /// Whether the kernel knows a directory by a name, as far as that can be seen without the file system and without a wait.
  package func hasDirectoryNode(_ name: Name, in directory: NodeID) -> Bool {
    let shown = directories.views.view(of: directory)?.realNameUnlessLocked(name)
    return Set([name, shown].compactMap(\.self)).contains { real in
      let node = CName(real).withPointer { nodes.node(at: directory, $0, nodeKind: .plain) }
      return node.map { nodes.type(of: $0) == .directory } ?? false
    }
  }

  /// Whether a name leads to a directory that the kernel knows.
  ///
  /// - Parameter ignored: a directory that does not count.
  package func leadsToKnownDirectory(
    _ name: Name, in directory: NodeID, except ignored: FileIdentity? = nil
  ) -> Bool {
    guard let handle = try? self.directory(directory) else { return false }
    return CName(name).withPointer { name in
      guard let found = try? find(directory, handle, name), found.nodeKind == .plain else { return false }
      guard FileType(mode: found.status.st_mode) == .directory, FileIdentity(found.status) != ignored,
        let node = nodes.node(of: FileIdentity(found.status)), let link = nodes.link(of: node)
      else { return false }
      return link.matches(found.status)
    }
  }

  // MARK: After directory views were dropped

  /// Invalidates the display names of views that are no longer kept up to date, and the negative entries that only a view can
  /// tell to be stale.
  ///
  /// Descriptors may run out while a worker has one of these views locked for a client. Such a view is left to the change loop,
  /// which holds no lock.
  func invalidateDisplayNames(of views: [DirectoryView], isChangeLoop: Bool = false) {
    guard !views.isEmpty, let kernel = cached.kernel else { return }
    for view in views {
      if let names = view.displayNames(waits: isChangeLoop) {
        kernel.invalidate(names)
        view.watched.invalidate(view.watched.allNegativeEntries, in: kernel)
      } else {
        changes.queue.noteDropped(view)
      }
    }
  }
}
