import BackingTree
import DisplayNames
import Glibc
import Logging
import PackageStream
import SystemPackage

/// A view of a backing tree: the file system without FUSE.
///
/// Every operation takes node ids, names and who asks, and throws the `errno` that the caller shall see.
public final class View: Sendable {
  public let nodes: NodeTable
  public let logger: Logger
  let rootHandle: DirectoryHandle
  private let remoteMounts: RemoteMounts
  let handles: DirectoryHandleCache
  let directoryViews: DirectoryViewCache
  let openNodes: OpenNodes
  let unlinkedNodes: UnlinkedNodes
  /// Threads that were told that a node is stale which is open although its name is gone. On a busy machine the kernel's
  /// second try has taken more than 50 ms.
  let staleNames = StaleNames(atOnce: .milliseconds(500))
  let movedNodes = MovedNodes()
  /// The same of operations with two paths: the kernel walks both again before it asks again.
  let refusedRenames = StaleNames(atOnce: .seconds(10))
  let refusedLinks = StaleNames(atOnce: .seconds(10))
  let lookers = Lookers()
  let tunnel: Tunnel
  let importsPackages: Bool
  let arePackagesImportedBeneath: Bool
  let packageSizes = PackageSizes()
  /// How often the listing of a directory was asked for and, as it was not remembered, read.
  public let listings = Tally()
  let staging: Staging
  let imported = ImportedStreams()
  let ownApplications = OwnApplications()
  let watch: ChangeWatch?
  let changes: ViewChanges
  let ownChanges: OwnChanges
  let cached: CachedDirectories
  private let covered: DirectoryHandle.Covered?
  /// Whether the view changes nothing: then names need no projection at all.
  let isPlainMirror: Bool
  public let coherence: Coherence
  private let complaints: Complaints
  /// What SOURCE lies on.
  public let fileSystem: FileSystemKind
  /// Whether the top directory of SOURCE has a label of SELinux.
  let isLabelled: Bool

  /// What applies the options in force.
  private let inspectorInForce: Guarded<EntryInspector>

  /// The view of the directory `source`, which stays open until the view is gone: a mount point on top of it, or
  /// inside it, is never entered.
  ///
  /// - Parameter covered: the mount point, if there will be one.
  public init(
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
    let complaints = Complaints(logger: logger)
    self.complaints = complaints
    let inspector = EntryInspector(options: options, root: handle.directory, complaints: complaints)
    inspectorInForce = Guarded(inspector)
    isPlainMirror = !options.profile.appliesRules
    self.fileSystem = fileSystem
    isLabelled = ExtendedAttributes(of: handle.directory.descriptor).value(Self.label, limit: 4096) != nil
    self.coherence = coherence.decided(for: handle.directory, on: fileSystem)
    let handles = DirectoryHandleCache(limit: 256)
    let directoryViews = DirectoryViewCache()
    self.handles = handles
    self.directoryViews = directoryViews
    let watch = try? ChangeWatch(root: handle.directory)
    let remoteMounts = RemoteMounts(home: identity.device)
    self.remoteMounts = remoteMounts
    let cached = CachedDirectories(watch: watch, remoteMounts: remoteMounts)
    self.watch = watch
    openNodes = OpenNodes(watch: watch)
    self.cached = cached
    let unlinkedNodes = UnlinkedNodes()
    self.unlinkedNodes = unlinkedNodes
    nodes = NodeTable(root: identity) { [movedNodes] id in
      movedNodes.remove(id)
      handles.remove(id)
      unlinkedNodes.remove(id)
      directoryViews.remove(id)
      cached.remove(id)
    }
    self.tunnel = tunnel
    arePackagesImportedBeneath = Self.importsPackages(handle.directory)
    self.importsPackages = importsPackages && options.profile.appliesRules && !arePackagesImportedBeneath
    changes = ViewChanges(watch: watch)
    ownChanges = OwnChanges(nodes: nodes, openNodes: openNodes, isAsked: !isPlainMirror)
    whenFound(by: inspector)
  }

  /// Whether a directory lies in another view, which makes packages of their streams itself: two would meet at one file.
  private static func importsPackages(_ directory: Directory) -> Bool {
    ExtendedAttributes(of: directory.descriptor).value(importsQuestion, limit: 8) == Array("true".utf8)
  }

  // MARK: Options

  public var options: ViewOptions { inspector.options }
  var inspector: EntryInspector { inspectorInForce.withLock { $0 } }

  /// Shows everything by other options from now on. What is listed otherwise than before is told as changes.
  ///
  /// - Throws: EINVAL for options that would make a mirror of a view, or a view of a mirror.
  public func replaceOptions(_ options: ViewOptions) throws(Errno) {
    let options = options.resolved(Self.profile(options, of: rootHandle.directory))
    guard options.profile.appliesRules != isPlainMirror else { throw .invalidArgument }
    if options == self.options { return }
    let inspector = EntryInspector(options: options, root: rootHandle.directory, complaints: complaints)
    whenFound(by: inspector)
    // By the names of before.
    let directories = cached.all
    invalidateAllNames(in: directories, waits: true)
    inspectorInForce.withLock { $0 = inspector }
    lookAgain { _ in true }
    // A look-up meanwhile went by the old rules.
    invalidateAllNames(in: directories, waits: true)
  }

  /// Nobody inspects but for the view. A weak reference would send each count of references to it through a table beside it.
  private func whenFound(by inspector: EntryInspector) {
    inspector.metadata.whenFound { [unowned self] in lookAgain { _ in true } }
  }

  private static func profile(_ options: ViewOptions, of source: Directory) -> Profile {
    options.profile == .auto ? detectProfile(of: source) : options.profile
  }

  /// Has the directories in use looked at again by the rules that are in force where they are now.
  func lookAgain(where mustBe: (NodeID) -> Bool) {
    for (id, view) in directoryViews.all where mustBe(id) {
      if let site = try? site(of: id) { view.adopt(inspector, site) } else { directoryViews.remove(id) }
    }
  }

  /// The same of what packages measure.
  public var packageMeasures: Tally { packageSizes.tally }

  /// How many directories' listings are remembered.
  public var listingsKept: Int { directoryViews.count }

  var rootDevice: UInt64 { rootHandle.identity.device }

  /// The inode number of the view's root.
  public var rootInode: UInt { UInt(rootHandle.identity.inode) }

  // MARK: Directories by node

  /// A directory that is still open for speed, also where its name is gone. The number of its node may have been another's: a
  /// thread that serves no request may open a directory while the kernel forgets it. Attributes of another type would make the
  /// kernel give the inode up. (EIO, `fuse_make_bad`)
  func openHandle(of id: NodeID) -> DirectoryHandle? {
    guard let handle = handles.handle(of: id), nodes.isNode(id, handle.identity) else { return nil }
    return handle
  }

  /// An open descriptor of a directory node.
  ///
  /// - Throws: ESTALE when the directory is no longer where it was last seen: the kernel looks it up again.
  public func directory(_ id: NodeID) throws(Errno) -> DirectoryHandle {
    if id == NodeTable.root { return rootHandle }
    if let handle = openHandle(of: id) { return handle }
    // From the nearest open ancestor down; iterative, as trees may be deep.
    var pending: [(id: NodeID, location: NodeTable.Location)] = []
    var current = id
    var handle: DirectoryHandle? = nil
    while handle == nil {
      guard let location = nodes.location(of: current) else { throw .staleNFSFileHandle }
      pending.append((current, location))
      current = location.parent
      handle = current == NodeTable.root ? rootHandle : openHandle(of: current)
      if pending.count > Self.deepest { throw .staleNFSFileHandle }
    }
    for (id, location) in pending.reversed() {
      let parent = handle!
      let descriptor: Descriptor
      do throws(Errno) {
        descriptor = try location.name.withPointer { (name) throws(Errno) in try parent.subdirectory(name) }
      } catch {
        throw error == .noSuchFileOrDirectory || error == .notDirectory || error == .tooManySymbolicLinkLevels
          ? .staleNFSFileHandle : error
      }
      guard location.isOf(try fileStatus(descriptor.rawValue)) else {
        throw .staleNFSFileHandle
      }
      let opened = DirectoryHandle(
        adopting: descriptor, identity: location.identity, covered: covered,
        isLocal: fileSystem.isLocal && location.identity.device == rootDevice)
      if DescriptorLimit.isKept(opened.directory.descriptor) { releaseDescriptors() }
      handles.insert(opened, for: id)
      handle = opened
    }
    return handle!
  }

  /// Directories above one another; deeper is taken for a circle.
  private static let deepest = 65_536

  /// The directory view of a node if there is one.
  func currentView(of id: NodeID) -> DirectoryView? {
    guard let view = directoryViews.view(of: id), nodes.isNode(id, view.handle.identity) else { return nil }
    listings.countAsked()
    return view
  }

  /// The directory view of a node, made when it is first needed.
  func directoryView(_ id: NodeID) throws(Errno) -> DirectoryView {
    if let view = currentView(of: id) { return view }
    listings.countAsked()
    var view = try newView(of: id)
    if view.lacksWatch {
      // Those that were looked at longest ago go without.
      forgetDisplayNames(of: directoryViews.removeOldest())
      view = try newView(of: id)
    }
    let (kept, dropped) = directoryViews.insert(view, for: id) { [nodes] in
      nodes.isNode(id, $0.handle.identity)
    }
    forgetDisplayNames(of: dropped)
    return kept
  }

  private func newView(of id: NodeID) throws(Errno) -> DirectoryView {
    let handle = try directory(id)
    return DirectoryView(
      node: id, handle: handle, inspector: inspector, site: try site(of: id),
      watch: remoteMounts.contain(handle.identity.device) ? nil : watch,
      recheck: coherence.recheck, changes: changes, ownChanges: ownChanges, listings: listings,
      cached: cached, nodes: nodes)
  }

  /// What leads from the root to a node, the node included.
  func locations(to id: NodeID) throws(Errno) -> [NodeTable.Location] {
    var chain: [NodeTable.Location] = []
    var current = id
    while current != NodeTable.root, let location = nodes.location(of: current) {
      chain.append(location)
      current = location.parent
      // Where the backing tree was changed meanwhile, what nodes remember may even go round in circles.
      if chain.count > Self.deepest { throw .staleNFSFileHandle }
    }
    return chain.reversed()
  }

  /// Which part of the tree a directory is. What lies in a package is shown as it is.
  private func site(of id: NodeID) throws(Errno) -> Site {
    let inspector = inspector
    let options = inspector.options
    let chain = try locations(to: id)
    var path: [Name] = []
    var site = Site(place: options.place(ofPath: path), rules: DirectoryRules(options.rules, in: path))
    if site.place.contains(.home) { site.home = Site.Home(handle: rootHandle) }
    for (depth, location) in chain.enumerated() {
      // In a deep tree this is most of what the first look at a directory takes.
      if location.name.withPointer({ inspector.mayBePackage($0) }) {
        let parent = try directory(location.parent).directory
        if inspector.isPackage(location.name.name, in: parent, at: site) {
          return Site(place: .insidePackage, rules: DirectoryRules())
        }
      }
      guard options.dependOnPath else { continue }
      path.append(location.name.name)
      site.place = options.place(ofPath: path)
      site.rules = DirectoryRules(options.rules, in: path)
      site.home?.path.append(path[depth])
      if site.place.contains(.home) {
        let home = depth + 1 == chain.count ? id : chain[depth + 1].parent
        site.home = Site.Home(handle: try directory(home))
      }
    }
    if Self.isTrashFiles(chain) { site.place.formUnion(.trashFiles) }
    return site
  }

  /// `files` in `.Trash-1000`, or in `.Trash/1000`. (Trash specification)
  private static func isTrashFiles(_ chain: [NodeTable.Location]) -> Bool {
    guard let last = chain.last, last.name.equals("files") else { return false }
    return chain.dropLast().suffix(2).contains { $0.name.withPointer { strncmp($0, ".Trash", 6) == 0 } }
  }
}

extension Errno {
  /// ESTALE: what a node stood for is gone from where it was; the kernel looks the name up again.
  static var staleNFSFileHandle: Errno { Errno(rawValue: Glibc.ESTALE) }
  static var tooManySymbolicLinkLevels: Errno { Errno(rawValue: Glibc.ELOOP) }
}
