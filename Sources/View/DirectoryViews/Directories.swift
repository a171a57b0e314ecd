import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// What the view keeps of directories, by node: open handles and directory views.
package final class Directories: Sendable {
  let handles = DirectoryHandleCache(limit: 256)
  let views = DirectoryViewCache()
  /// File systems that are mounted below SOURCE and change without the watch reporting it.
  let remoteMounts: RemoteMounts
  /// How often the listing of a directory was requested, and how often it was not cached and had to be read.
  package let listings = Tally()
  /// How often directory views were compared with the rules and with their places.
  private let refreshes = Atomic<UInt64>(0)

  init(remoteMounts: RemoteMounts) { self.remoteMounts = remoteMounts }

  var refreshCount: UInt64 { refreshes.load(ordering: .acquiring) }

  /// Called before the views in use are compared, because something may have changed that decides how whole directories are shown.
  func noteRefresh() { refreshes.add(1, ordering: .releasing) }
}

extension View {
  /// The cached open handle of a directory, which may have lost its name. The node's number may have been that of
  /// another node: a thread that serves no request may open a directory while the kernel forgets it. Attributes of another type
  /// would make the kernel mark the inode as bad. (EIO, `fuse_make_bad`)
  func openHandle(of id: NodeID) -> DirectoryHandle? {
    guard let handle = directories.handles.handle(of: id), nodes.hasIdentity(id, handle.identity) else {
      return nil
    }
    return handle
  }

  /// An open handle of a directory node.
  ///
  /// - Throws: ESTALE when the directory is no longer where it was last seen. The kernel then looks it up again.
  package func directory(_ id: NodeID) throws(Errno) -> DirectoryHandle {
    if id == NodeTable.root { return source.root }
    if let handle = openHandle(of: id) { return handle }
    // Opens from the nearest open ancestor down; iterative, because trees may be deep.
    var pending: [(id: NodeID, link: NodeTable.Link)] = []
    var current = id
    var handle: DirectoryHandle? = nil
    while handle == nil {
      guard let link = nodes.link(of: current) else { throw .staleNFSFileHandle }
      pending.append((current, link))
      current = link.parent
      handle = current == NodeTable.root ? source.root : openHandle(of: current)
      if pending.count > NodeTable.maximumDepth { throw .staleNFSFileHandle }
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
      let status = try link.status(of: descriptor)
      let opened = DirectoryHandle(
        adopting: descriptor, identity: link.identity, covered: source.covered,
        isLocal: source.isLocal(status, in: parent),
        sizeAtOpening: Int(status.st_size))
      if DescriptorLimit.isReserved(opened.directory.descriptor) { releaseDescriptors() }
      directories.handles.insert(opened, for: id)
      handle = opened
    }
    return handle!
  }

  /// The directory view of a node, if there is one.
  func currentView(of id: NodeID) -> DirectoryView? {
    guard let view = directories.views.view(of: id), nodes.hasIdentity(id, view.handle.identity) else {
      return nil
    }
    directories.listings.countRequest()
    return view
  }

  /// The directory view of a node, which is made on first use.
  func directoryView(_ id: NodeID) throws(Errno) -> DirectoryView {
    if let view = currentView(of: id) { return view }
    directories.listings.countRequest()
    let refreshCount = directories.refreshCount
    let view = try newView(of: id)
    let (kept, dropped) = directories.views.insert(view, for: id) { [nodes] in
      nodes.hasIdentity(id, $0.handle.identity)
    }
    invalidateDisplayNames(of: dropped)
    // A refresh may have missed this view while it was made.
    if directories.refreshCount != refreshCount { kept.adopt(inspector, try site(of: id)) }
    return kept
  }

  private func newView(of id: NodeID) throws(Errno) -> DirectoryView {
    let handle = try directory(id)
    let site = try site(of: id)
    let watch = directories.remoteMounts.contains(handle.identity.device) ? nil : changes.watch
    // SOURCE was opened when it was mounted, and may have grown since.
    let mayBeLarge = id == NodeTable.root || handle.sizeAtOpening >= EntriesAhead.minimumSize
    let isReadAhead = watch != nil && source.coherence.recheck == nil && mayBeLarge
    let ahead = isReadAhead ? EntriesAhead(of: handle.directory) : nil
    let watched =
      watchedDirectory(id, handle) ?? WatchedDirectory(unwatched: handle, id, queue: changes.queue)
    if let view = watched.changes.view {
      // It was dropped from the cache while in use, and was not notified of other rules since.
      view.adopt(inspector, site)
      return view
    }
    return watched.changes.attach(
      DirectoryView(
        of: watched, handle, inspector: inspector, site: site, watch: watch,
        recheck: source.coherence.recheck, hasSubvolumes: hasSubvolumes(handle), ahead: ahead,
        changeQueue: changes.queue, ownChanges: changes.own, listings: directories.listings, cached: cached,
        nodes: nodes))
  }

  private func hasSubvolumes(_ handle: DirectoryHandle) -> Bool {
    let isOnSource = handle.identity.device == source.device
    return (isOnSource ? source.fileSystem : FileSystemKind(of: handle.directory.descriptor)).hasSubvolumes
  }

  /// A directory that is watched from then on; nil when it cannot be.
  private func watchedDirectory(_ id: NodeID, _ handle: DirectoryHandle) -> WatchedDirectory? {
    do throws(Errno) { return try cached.watched(id, handle) } catch {
      guard error == .noSpace else { return nil }
      // No watch was left for it: the least recently used views are dropped.
      invalidateDisplayNames(of: directories.views.removeOldest())
      return try? cached.watched(id, handle)
    }
  }

  /// The locations on the path from the root to a node, including the node.
  ///
  /// - Throws: ESTALE where a directory on it is not known to be anywhere.
  func links(to id: NodeID) throws(Errno) -> [NodeTable.Link] {
    var chain: [NodeTable.Link] = []
    var current = id
    while current != NodeTable.root, let link = nodes.link(of: current) {
      chain.append(link)
      current = link.parent
      if chain.count > NodeTable.maximumDepth { throw .staleNFSFileHandle }
    }
    if current != NodeTable.root, nodes.lastParent(of: current) == nil { throw .staleNFSFileHandle }
    return chain.reversed()
  }

  /// The part of the tree that a directory is in. The content of a package is shown unchanged.
  func site(of id: NodeID) throws(Errno) -> Site {
    let inspector = inspector
    let options = inspector.options
    var path: [Name] = []
    var site = Site(role: options.role(ofPath: path), rules: DirectoryRules(options.rules, in: path))
    if site.role.contains(.home) { site.home = Site.Home(handle: source.root) }
    if !options.dependOnPath {
      // For most directories it is enough to look at the names. They are not copied: in a deep tree that would be most of the
      // cost of the first look at a directory.
      let mayDiffer = nodes.hasName(onPathTo: id) { inspector.mayBePackage($0) || Self.isTrash($0) }
      guard let mayDiffer else { throw .staleNFSFileHandle }
      if !mayDiffer { return site }
    }
    let chain = try links(to: id)
    for (depth, link) in chain.enumerated() {
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
      site.path = path
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
    return chain.dropLast().suffix(2).contains { $0.name.withPointer(isTrash) }
  }

  private static func isTrash(_ name: UnsafePointer<CChar>) -> Bool { strncmp(name, ".Trash", 6) == 0 }
}
