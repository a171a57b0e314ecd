import BackingTree
import DisplayNames
import Glibc
import Logging
import PackageStream
import SystemPackage

/// A view of a backing tree: the file system without FUSE.
///
/// Every operation takes node IDs, names and the client's credentials, and throws the `errno` for the client.
package final class View: Sendable {
  package let nodes: NodeTable
  package let logger: Logger
  let rootHandle: DirectoryHandle
  private let remoteMounts: RemoteMounts
  let handles: DirectoryHandleCache
  let directoryViews: DirectoryViewCache
  let openNodes: OpenNodes
  let unlinkedNodes: UnlinkedNodes
  /// Threads that got ESTALE for a node that is open although its name is gone. On a busy machine the kernel's retry has taken
  /// more than 50 ms.
  let staleRetries = StaleRetries(within: .milliseconds(500))
  let movedNodes = MovedNodes()
  /// Threads that got ESTALE for an operation with two paths: the kernel walks both paths again before it repeats the request.
  let refusedRenames = StaleRetries(within: .seconds(10))
  let refusedLinks = StaleRetries(within: .seconds(10))
  let readdirPlusPolicy = ReaddirPlusPolicy()
  let tunnel: Tunnel
  let importsPackages: Bool
  let arePackagesImportedBeneath: Bool
  let packageSizes = PackageSizes()
  /// How often the listing of a directory was requested, and how often it was not cached and had to be read.
  package let listings = Tally()
  let staging: Staging
  let imported = ImportedStreams()
  let ownApplications = OwnApplications()
  let watch: ChangeWatch?
  let changeQueue: ChangeQueue
  let ownChanges: OwnChanges
  let cached: CachedDirectories
  private let covered: DirectoryHandle.Covered?
  /// Whether the view changes nothing, so that names need no projection.
  let isPlainMirror: Bool
  package let coherence: Coherence
  private let malformedMetadataLog: MalformedMetadataLog
  /// The kind of file system that SOURCE is on.
  package let fileSystem: FileSystemKind
  /// Whether the top directory of SOURCE has an SELinux label.
  let isLabelled: Bool

  /// The inspector with the options in force.
  private let currentInspector: Guarded<EntryInspector>

  /// Makes the view of the directory `source`, which stays open as long as the view exists. A mount point on top of `source`, or
  /// inside it, is never entered.
  ///
  /// - Parameter covered: the mount point, if there will be one.
  package init(
    source: consuming Descriptor, covered: consuming CoveredDirectory? = nil, options: ViewOptions,
    coherence: Coherence = Coherence(), tunnel: Tunnel = Tunnel(), importsPackages: Bool = true,
    logger: Logger
  ) throws(Errno) {
    let identity = FileIdentity(try fileStatus(source.rawValue))
    let coveredDirectory = DirectoryHandle.Covered(covered)
    self.covered = coveredDirectory
    let fileSystem = FileSystemKind(of: source.rawValue)
    let handle = DirectoryHandle(
      adopting: source, identity: identity, covered: coveredDirectory, isLocal: fileSystem.isLocal)
    self.logger = logger
    rootHandle = handle
    staging = Staging(in: handle)
    let options = options.resolved(Self.profile(options, of: handle.directory))
    let malformedMetadataLog = MalformedMetadataLog(logger: logger)
    self.malformedMetadataLog = malformedMetadataLog
    let inspector = EntryInspector(
      options: options, root: handle.directory, malformedMetadataLog: malformedMetadataLog)
    currentInspector = Guarded(inspector)
    isPlainMirror = !options.profile.appliesRules
    self.fileSystem = fileSystem
    isLabelled = ExtendedAttributes(of: handle.directory.descriptor).value(Self.label, limit: 4096) != nil
    self.coherence = coherence.resolved(for: handle.directory, on: fileSystem)
    let handles = DirectoryHandleCache(limit: 256)
    let directoryViews = DirectoryViewCache()
    self.handles = handles
    self.directoryViews = directoryViews
    let watch = try? ChangeWatch(root: handle.directory)
    let remoteMounts = RemoteMounts(home: identity.device)
    self.remoteMounts = remoteMounts
    changeQueue = ChangeQueue(watch: watch)
    let cached = CachedDirectories(
      watch: watch, remoteMounts: remoteMounts, views: directoryViews, queue: changeQueue)
    self.watch = watch
    openNodes = OpenNodes(watch: watch)
    self.cached = cached
    let unlinkedNodes = UnlinkedNodes()
    self.unlinkedNodes = unlinkedNodes
    nodes = NodeTable(root: identity) { [movedNodes, imported] id in
      movedNodes.remove(id)
      imported.remove(id)
      handles.remove(id)
      unlinkedNodes.remove(id)
      directoryViews.remove(id)
      cached.remove(id)
    }
    self.tunnel = tunnel
    arePackagesImportedBeneath = Self.importsPackages(handle.directory)
    self.importsPackages = importsPackages && options.profile.appliesRules && !arePackagesImportedBeneath
    ownChanges = OwnChanges(nodes: nodes, openNodes: openNodes, isEnabled: !isPlainMirror)
    onFirstFound(by: inspector)
  }

  /// Whether a directory lies in another view that imports packages itself. Two views would import the same file.
  private static func importsPackages(_ directory: Directory) -> Bool {
    ExtendedAttributes(of: directory.descriptor).value(importsAttribute, limit: 8) == Array("true".utf8)
  }

  // MARK: Options

  package var options: ViewOptions { inspector.options }
  var inspector: EntryInspector { currentInspector.withLock { $0 } }

  /// Applies other options to the whole view from now on. Entries that are listed differently than before are reported as
  /// changes.
  ///
  /// - Throws: EINVAL for options that would turn a view into a mirror, or a mirror into a view.
  package func replaceOptions(_ options: ViewOptions) throws(Errno) {
    let options = options.resolved(Self.profile(options, of: rootHandle.directory))
    guard options.profile.appliesRules != isPlainMirror else { throw .invalidArgument }
    if options == self.options { return }
    let inspector = EntryInspector(
      options: options, root: rootHandle.directory, malformedMetadataLog: malformedMetadataLog)
    onFirstFound(by: inspector)
    // This invalidates the names that the old options give.
    let directories = cached.all
    invalidateAllNames(in: directories, waits: true)
    currentInspector.withLock { $0 = inspector }
    refreshViews { _ in true }
    // A lookup in the meantime may have used the old options.
    invalidateAllNames(in: directories, waits: true)
  }

  /// The inspector works only for the view, so the reference can be unowned. With a weak reference, every reference count
  /// operation on the view would go through a side table.
  private func onFirstFound(by inspector: EntryInspector) {
    inspector.metadata.onFirstFound { [unowned self] in refreshViews { _ in true } }
  }

  private static func profile(_ options: ViewOptions, of source: Directory) -> Profile {
    options.profile == .auto ? detectProfile(of: source) : options.profile
  }

  /// Refreshes the directory views in use, each with the rules in force at its current place.
  func refreshViews(where condition: (NodeID) -> Bool) {
    for (id, view) in directoryViews.all where condition(id) {
      if let site = try? site(of: id) { view.adopt(inspector, site) } else { directoryViews.remove(id) }
    }
  }

  /// How often the size or content of a package was requested, and how often a package was walked for it.
  package var packageMeasures: Tally { packageSizes.tally }

  /// The number of directories whose listing is cached.
  package var cachedListingCount: Int { directoryViews.count }

  var rootDevice: UInt64 { rootHandle.identity.device }

  /// The inode number of the view's root.
  package var rootInode: UInt { UInt(rootHandle.identity.inode) }

  // MARK: Directories by node

  /// The cached open handle of a directory, which may also be one whose name is gone. The node's number may have been that of
  /// another node: a thread that serves no request may open a directory while the kernel forgets it. Attributes of another type
  /// would make the kernel mark the inode as bad. (EIO, `fuse_make_bad`)
  func openHandle(of id: NodeID) -> DirectoryHandle? {
    guard let handle = handles.handle(of: id), nodes.hasIdentity(id, handle.identity) else { return nil }
    return handle
  }

  /// An open handle of a directory node.
  ///
  /// - Throws: ESTALE when the directory is no longer where it was last seen. The kernel then looks it up again.
  package func directory(_ id: NodeID) throws(Errno) -> DirectoryHandle {
    if id == NodeTable.root { return rootHandle }
    if let handle = openHandle(of: id) { return handle }
    // Opens from the nearest open ancestor down; iterative, because trees may be deep.
    var pending: [(id: NodeID, link: NodeTable.Link)] = []
    var current = id
    var handle: DirectoryHandle? = nil
    while handle == nil {
      guard let link = nodes.link(of: current) else { throw .staleNFSFileHandle }
      pending.append((current, link))
      current = link.parent
      handle = current == NodeTable.root ? rootHandle : openHandle(of: current)
      if pending.count > Self.maximumDepth { throw .staleNFSFileHandle }
    }
    for (id, link) in pending.reversed() {
      let parent = handle!
      let descriptor: Descriptor
      do throws(Errno) {
        descriptor = try link.name.withPointer { (name) throws(Errno) in try parent.subdirectory(name) }
      } catch {
        throw error == .noSuchFileOrDirectory || error == .notDirectory || error == .tooManySymbolicLinkLevels
          ? .staleNFSFileHandle : error
      }
      guard link.matches(try fileStatus(descriptor.rawValue)) else {
        throw .staleNFSFileHandle
      }
      let opened = DirectoryHandle(
        adopting: descriptor, identity: link.identity, covered: covered,
        isLocal: fileSystem.isLocal && link.identity.device == rootDevice)
      if DescriptorLimit.isReserved(opened.directory.descriptor) { releaseDescriptors() }
      handles.insert(opened, for: id)
      handle = opened
    }
    return handle!
  }

  /// The maximum number of directories above one another. A longer chain is taken for a cycle.
  private static let maximumDepth = 65_536

  /// The directory view of a node, if there is one.
  func currentView(of id: NodeID) -> DirectoryView? {
    guard let view = directoryViews.view(of: id), nodes.hasIdentity(id, view.handle.identity) else {
      return nil
    }
    listings.countRequest()
    return view
  }

  /// The directory view of a node, which is made on first use.
  func directoryView(_ id: NodeID) throws(Errno) -> DirectoryView {
    if let view = currentView(of: id) { return view }
    listings.countRequest()
    let view = try newView(of: id)
    let (kept, dropped) = directoryViews.insert(view, for: id) { [nodes] in
      nodes.hasIdentity(id, $0.handle.identity)
    }
    invalidateDisplayNames(of: dropped)
    return kept
  }

  private func newView(of id: NodeID) throws(Errno) -> DirectoryView {
    let handle = try directory(id)
    let site = try site(of: id)
    let watch = remoteMounts.contains(handle.identity.device) ? nil : watch
    let ahead = watch == nil || coherence.recheck != nil ? nil : EntriesAhead(of: handle.directory)
    let watched = watchedDirectory(id, handle) ?? WatchedDirectory(unwatched: handle, id, queue: changeQueue)
    if let view = watched.changes.view {
      // It was dropped from the cache while in use, and was not notified of other rules since.
      view.adopt(inspector, site)
      return view
    }
    return watched.changes.attach(
      DirectoryView(
        of: watched, handle, inspector: inspector, site: site, watch: watch, recheck: coherence.recheck,
        ahead: ahead, changeQueue: changeQueue, ownChanges: ownChanges, listings: listings, cached: cached,
        nodes: nodes))
  }

  /// A directory that is watched from then on; nil when it cannot be.
  private func watchedDirectory(_ id: NodeID, _ handle: DirectoryHandle) -> WatchedDirectory? {
    do throws(Errno) { return try cached.watched(id, handle) } catch {
      guard error == .noSpace else { return nil }
      // No watch was left for it: the least recently used views are dropped.
      invalidateDisplayNames(of: directoryViews.removeOldest())
      return try? cached.watched(id, handle)
    }
  }

  /// The locations on the path from the root to a node, including the node.
  func links(to id: NodeID) throws(Errno) -> [NodeTable.Link] {
    var chain: [NodeTable.Link] = []
    var current = id
    while current != NodeTable.root, let link = nodes.link(of: current) {
      chain.append(link)
      current = link.parent
      // If the backing tree was changed meanwhile, the parents recorded in nodes may even form a cycle.
      if chain.count > Self.maximumDepth { throw .staleNFSFileHandle }
    }
    return chain.reversed()
  }

  /// The part of the tree that a directory is in. The content of a package is shown unchanged.
  private func site(of id: NodeID) throws(Errno) -> Site {
    let inspector = inspector
    let options = inspector.options
    let chain = try links(to: id)
    var path: [Name] = []
    var site = Site(role: options.role(ofPath: path), rules: DirectoryRules(options.rules, in: path))
    if site.role.contains(.home) { site.home = Site.Home(handle: rootHandle) }
    for (depth, link) in chain.enumerated() {
      // In a deep tree this is most of the cost of the first look at a directory.
      if link.name.withPointer({ inspector.mayBePackage($0) }) {
        let parent = try directory(link.parent).directory
        if inspector.isPackage(link.name.name, in: parent, at: site) {
          return Site(role: .insidePackage, rules: DirectoryRules())
        }
      }
      guard options.dependOnPath else { continue }
      path.append(link.name.name)
      site.role = options.role(ofPath: path)
      site.rules = DirectoryRules(options.rules, in: path)
      site.home?.path.append(path[depth])
      if site.role.contains(.home) {
        let home = depth + 1 == chain.count ? id : chain[depth + 1].parent
        site.home = Site.Home(handle: try directory(home))
      }
    }
    if Self.isTrashFiles(chain) { site.role.formUnion(.trashFiles) }
    return site
  }

  /// Whether the directory is `files` in `.Trash-1000` or in `.Trash/1000`. (Trash specification)
  private static func isTrashFiles(_ chain: [NodeTable.Link]) -> Bool {
    guard let last = chain.last, last.name.equals("files") else { return false }
    return chain.dropLast().suffix(2).contains { $0.name.withPointer { strncmp($0, ".Trash", 6) == 0 } }
  }
}

extension Errno {
  /// ESTALE: the file of a node is gone from its place. The kernel looks the name up again.
  static var staleNFSFileHandle: Errno { Errno(rawValue: Glibc.ESTALE) }
  static var tooManySymbolicLinkLevels: Errno { Errno(rawValue: Glibc.ELOOP) }
}
