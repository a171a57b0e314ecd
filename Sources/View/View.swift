import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage

/// A view of a backing tree: the file system without FUSE.
///
/// Every operation takes node IDs, names and the client's credentials, and throws the `errno` for the client.
package final class View: Sendable {
  package let logger: Logger
  package let source: Source
  private let rules: ViewRules
  package let nodes: NodeTable
  package let directories: Directories
  let openNodes: OpenNodes
  let unlinkedNodes: UnlinkedNodes
  let walks: PathWalks
  let packages: PackageFiles
  let tunnel: Tunnel
  let changes: ChangeTracking
  let cached: CachedDirectories

  /// Makes the view of the directory `source`, which stays open as long as the view exists. A mount point on top of `source`,
  /// or inside it, is never entered.
  ///
  /// - Parameters:
  ///   - covered: the mount point, if there will be one.
  ///   - isExported: whether file handles of the view last. Needs CAP_DAC_READ_SEARCH.
  ///   - isShared: whether the view is used by all users, not only by the one that mounted it. (`allow_other`)
  /// - Throws: EOPNOTSUPP for an exported view where files cannot be found by inode number and generation.
  package init(
    source: consuming Descriptor, covered: consuming CoveredDirectory? = nil, options: ViewOptions,
    coherence: Coherence = Coherence(), tunnel: Tunnel = Tunnel(), importsPackages: Bool = true,
    isExported: Bool = false, isShared: Bool = false, logger: Logger
  ) throws(Errno) {
    let source = try Source(source, covered: covered, coherence: coherence, isExported: isExported)
    let rules = ViewRules(options, of: source.root.directory, isShared: isShared, logger: logger)
    let watch = try? ChangeWatch(root: source.root.directory)
    let directories = Directories(remoteMounts: RemoteMounts(home: source.device))
    let queue = ChangeQueue(watch: watch, doPermissionsAffectListing: isShared)
    let cached = CachedDirectories(
      watch: watch, remoteMounts: directories.remoteMounts, views: directories.views, queue: queue)
    let packages = PackageFiles(in: source.root, imports: importsPackages && !rules.isPlainMirror)
    let (walks, unlinkedNodes) = (PathWalks(), UnlinkedNodes())
    let nodes = NodeTable(root: source.identity, isExported: isExported) { id in
      walks.moved.remove(id)
      packages.imported.remove(id)
      directories.handles.remove(id)
      unlinkedNodes.remove(id)
      directories.views.remove(id)
      cached.remove(id)
    }
    let openNodes = OpenNodes(watch: watch)
    let own = OwnChanges(nodes: nodes, openNodes: openNodes, isEnabled: !rules.isPlainMirror)
    self.logger = logger
    self.source = source
    self.rules = rules
    self.nodes = nodes
    self.directories = directories
    self.openNodes = openNodes
    self.unlinkedNodes = unlinkedNodes
    self.walks = walks
    self.packages = packages
    self.tunnel = tunnel
    changes = ChangeTracking(watch: watch, queue: queue, own: own)
    self.cached = cached
    queue.doesContentAffectListing.store(rules.inspector.options.aliases == .symlink, ordering: .relaxed)
    onFirstFound(by: rules.inspector)
    if !rules.isPlainMirror { noteDirectoryAttributes(by: watch) }
  }

  /// Has a directory inspected again in the one that it lies in when its attributes changed, which its Finder info is among.
  ///
  /// Called while other threads wait for what changed: the place is looked up in the node table, and on the file system only where
  /// the kernel knows the directory by no name.
  private func noteDirectoryAttributes(by watch: ChangeWatch?) {
    // The watch must not keep what refers to it. It delivers no change after this view is gone.
    watch?.onDirectoryAttributes { [unowned cached, unowned nodes, unowned rules] directory in
      if rules.inspector.options.finderInfo == .off { return }
      if let link = nodes.node(of: directory.identity).flatMap(nodes.link) {
        cached.directory(link.parent)?.changes.noteAttributes(ofDirectory: link.name.name)
      } else if let (parent, name) = directory.place, let node = nodes.node(of: parent) {
        cached.directory(node)?.changes.noteAttributes(ofDirectory: Name(name))
      }
    }
  }

  // MARK: Options

  package var options: ViewOptions { inspector.options }
  var inspector: EntryInspector { rules.inspector }
  /// Whether the view changes nothing, so that names need no projection.
  var isPlainMirror: Bool { rules.isPlainMirror }

  /// Applies other options to the whole view from now on. Entries that are listed differently than before are reported as
  /// changes.
  ///
  /// - Throws: EINVAL for options that would turn a view into a mirror, or a mirror into a view.
  package func replaceOptions(_ options: ViewOptions) throws(Errno) {
    let inspector = try rules.inspector(for: options, of: source.root.directory)
    onFirstFound(by: inspector)
    // This invalidates the names that the old options give.
    let directories = cached.all
    invalidateAllNames(in: directories, waits: true)
    changes.queue.doesContentAffectListing.store(inspector.options.aliases == .symlink, ordering: .relaxed)
    rules.replace(inspector)
    refreshAllViews()
    // A lookup in the meantime may have used the old options.
    invalidateAllNames(in: directories, waits: true)
  }

  /// The inspector works only for the view, so the reference can be unowned. With a weak reference, every reference count
  /// operation on the view would go through a side table.
  private func onFirstFound(by inspector: EntryInspector) {
    inspector.metadata.onFirstFound { [unowned self] in refreshAllViews() }
  }

  /// Refreshes the directory views in use, each with the rules in force at its current place.
  func refreshAllViews() {
    directories.noteRefresh()
    for (id, view) in directories.views.all { refresh(view, of: id) }
  }

  private func refresh(_ view: DirectoryView, of id: NodeID) {
    guard let site = try? site(of: id) else { return directories.views.remove(id) }
    view.adopt(inspector, site)
    // Another thread may have found the view right before that, after the directory was moved once more.
    if let now = try? self.site(of: id), now.role != site.role { view.adopt(inspector, now) }
  }

  /// Called when a directory is at another place than before or has another name. That decides how its content is shown: that of a
  /// package is not named as outside.
  func refreshViews(inMoved identity: FileIdentity) {
    directories.noteRefresh()
    let views = directories.views.all.filter { nodes.isBelow($0.id, [identity]) }
    let cached = cached.all.filter { nodes.isBelow($0.node, [identity]) }
    // Without a view it is not known by which rules the kernel got its names.
    guard
      options.dependOnPath || cached.contains(where: { $0.changes.view == nil })
        || views.contains(where: isAtAnotherPlace)
    else { return }
    invalidateAllNames(in: cached, waits: false)
    for (id, view) in views { refresh(view, of: id) }
  }

  /// Called for directories that may have become packages or ceased to be ones.
  func refreshViews(inside identities: Set<FileIdentity>) {
    guard !identities.isEmpty else { return }
    directories.noteRefresh()
    let views = directories.views.all.filter { nodes.isBelow($0.id, identities) }.filter(isAtAnotherPlace)
    guard !views.isEmpty else { return }
    let ids = Set(views.map(\.id))
    let cached = cached.all.filter {
      ids.contains($0.node) || $0.changes.view == nil && nodes.isBelow($0.node, identities)
    }
    invalidateAllNames(in: cached, waits: false)
    for (id, view) in views { refresh(view, of: id) }
  }

  /// Whether a view is going to show its directory as if that were still in another part of the tree.
  private func isAtAnotherPlace(_ id: NodeID, _ view: DirectoryView) -> Bool {
    guard let site = try? site(of: id), let role = view.nextRoleUnlessLocked() else { return true }
    return site.role != role
  }

  /// How often the size or content of a package was requested, and how often a package was walked for it.
  package var packageMeasures: Tally { packages.sizes.tally }

  /// The number of directories whose listing is cached.
  package var cachedListingCount: Int { directories.views.count }

  /// The inode number of the view's root.
  package var rootInode: UInt { UInt(source.root.identity.inode) }
}

extension Errno {
  /// ESTALE: the file of a node is gone from its place. The kernel looks the name up again.
  static var staleNFSFileHandle: Errno { Errno(rawValue: Glibc.ESTALE) }
  static var tooManySymbolicLinkLevels: Errno { Errno(rawValue: Glibc.ELOOP) }
}
