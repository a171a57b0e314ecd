import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// The cached state of one backing directory: its projection, kept current by the watch on the directory.
///
/// The directory is read from the disk once. Afterwards only the entries that changed are inspected again. Where the directory
/// cannot be watched, a comparison of its times shows whether it changed.
package final class DirectoryView: Sendable {
  /// The directory, and its changes that the view has not inspected yet.
  let watched: WatchedDirectory
  let node: NodeID
  let handle: DirectoryHandle
  /// The rules by which entries are inspected, and the site of the directory. Read and replaced with the lock held.
  struct Rules {
    let inspector: EntryInspector
    let site: Site
  }
  nonisolated(unsafe) private var protectedRules: Rules
  var rules: Rules {
    get {
      assert(lock.isHeld)
      return protectedRules
    }
    set {
      assert(lock.isHeld)
      protectedRules = newValue
    }
  }
  var inspector: EntryInspector { rules.inspector }
  var site: Site { rules.site }
  /// Whether the directory is watched; otherwise its times are compared.
  let isWatched: Bool
  /// The number of nanoseconds after which the times are compared although there is a watch; nil means never.
  let recheck: Int64?
  /// Whether directories here may be the roots of subvolumes.
  let hasSubvolumes: Bool
  /// Whether a staging directory was among the entries when they were read: one in use, or a leftover.
  let mayHoldStaging = Atomic(false)

  let lock = RecursionFreeLock(.directoryView)
  @exclusivity(unchecked) nonisolated(unsafe) private var protectedState = State()
  var state: State {
    _read {
      assert(lock.isHeld)
      yield protectedState
    }
    _modify {
      assert(lock.isHeld)
      yield &protectedState
    }
  }
  /// Reports changes of other directories that decide how entries are shown.
  let watch: ChangeWatch?
  let changeQueue: ChangeQueue
  let ownChanges: OwnChanges
  let listings: Tally
  let cached: CachedDirectories
  let nodes: NodeTable

  /// - Parameter ahead: the entries of the directory, if another thread is reading them.
  init(
    of watched: WatchedDirectory, _ handle: DirectoryHandle, inspector: EntryInspector, site: Site,
    watch: ChangeWatch?, recheck: Int64?, hasSubvolumes: Bool = false, ahead: EntriesAhead? = nil,
    changeQueue: ChangeQueue, ownChanges: OwnChanges, listings: Tally, cached: CachedDirectories,
    nodes: NodeTable
  ) {
    self.watched = watched
    node = watched.node
    isWatched = watched.subscription != nil
    self.handle = handle
    protectedRules = Rules(inspector: inspector, site: site)
    self.watch = watch
    self.recheck = recheck
    self.hasSubvolumes = hasSubvolumes
    self.changeQueue = changeQueue
    self.ownChanges = ownChanges
    self.listings = listings
    self.cached = cached
    self.nodes = nodes
    protectedState.ahead = ahead
    inspector.metadata.probe(directory: handle.directory)
  }

  /// The site of the directory as of the last look, for code that does not have it locked.
  var lastSite: Site {
    lock.lock()
    defer { lock.unlock() }
    return site
  }

  /// Runs `body` with a projection of the directory's current state.
  func withCurrent<R: ~Copyable>(_ body: (borrowing Projection) throws(Errno) -> R) throws(Errno) -> R {
    lock.lock()
    defer { unlock() }
    try refresh()
    return try body(state.projection)
  }

  /// Runs a change of the directory while no other thread changes it through the mount.
  ///
  /// `projection` shows the directory before the change; `reconcile` brings it up to date. The argument of `body` is whether the
  /// directory may be read. If not, it has no projection.
  func changing<R: ~Copyable>(_ body: (_ isReadable: Bool) throws(Errno) -> R) throws(Errno) -> R {
    lock.lock()
    defer { unlock() }
    var isReadable = true
    do throws(Errno) { try refresh() } catch {
      guard error == .permissionDenied else { throw error }
      isReadable = false
    }
    return try body(isReadable)
  }

  /// Runs a change of two directories, which may be the same, as `changing` does for one.
  static func changing<R: ~Copyable>(
    _ a: DirectoryView, _ b: DirectoryView, _ body: (_ areReadable: Bool) throws(Errno) -> R
  ) throws(Errno) -> R {
    if a === b { return try a.changing(body) }
    // The lock order is always the same, so that two renames in opposite directions cannot deadlock.
    let (first, second) = a.lock.address < b.lock.address ? (a, b) : (b, a)
    return try first.changing { (isFirstReadable) throws(Errno) in
      try second.changing { (isSecondReadable) throws(Errno) in
        try body(isFirstReadable && isSecondReadable)
      }
    }
  }

  /// The projection, for code that runs inside `changing`.
  var projection: Projection { _read { yield state.projection } }

  /// Whether times have to be compared, because there is no watch or it does not report every change.
  var comparesTimes: Bool { !isWatched || recheck != nil }

  func unlock() {
    invalidateDisplaced()
    reportChanges()
    lock.unlock()
  }

  /// Called before the directory is listed for the kernel to keep the listing.
  ///
  /// - Returns: whether the listing that the kernel keeps from before is still correct.
  func beginCachedListing() throws(Errno) -> Bool {
    lock.lock()
    defer { unlock() }
    try refresh()
    let version = state.projection.version
    defer { state.listedVersion = version }
    return state.listedVersion == version
  }

  func refresh() throws(Errno) {
    if isWatched { watch?.drain() }
    defer { reportChanges() }
    try inspectChanged()
    if site.role.contains(.cloudContainer) { updateContainerData() }
  }
}
