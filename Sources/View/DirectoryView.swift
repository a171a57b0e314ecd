import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// What the mount remembers of one backing directory: its projection, kept right by the watch on the directory.
///
/// It is read from the disk once; afterwards only the entries that changed are looked at again. Where the directory
/// cannot be watched, its times tell whether it changed.
public final class DirectoryView: Sendable {
  let node: NodeID
  let handle: DirectoryHandle
  /// What the entries are looked at with, and where the directory is. Read and replaced with the lock held.
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
  /// Nanoseconds after which the times are compared although there is a watch; nil is never.
  let recheck: Int64?
  /// Whether a staging directory was seen among the entries when they were read: one that is in use, or a leftover.
  let holdsStaging = Atomic(false)

  /// Only the files of this class touch it, inside the lock.
  struct State: ~Copyable {
    var projection = Projection()
    /// Its entries, read since before it was watched.
    var ahead: EntriesAhead?
    var facts = EntryInspector.DirectoryFacts()
    /// The names of what `._name` files are beside, whether that is there or not.
    var accompanied: Set<Name> = []
    var isRead = false
    /// When each directory in it last changed, where times are compared: a marker that appears inside one changes how
    /// it is listed.
    var insideChanged: [Projection.Slot: FileTimes] = [:]
    /// The watches on what is inside an entry and says how it is listed.
    var inside: [Projection.Slot: [(path: [UInt8], key: ChangeWatch.Key)]] = [:]
    /// The watch on what says which of a home's directories are the user directories.
    var userDirectories: ChangeWatch.Key?
    /// The watch on what netatalk 2 keeps here.
    var netatalk: ChangeWatch.Key?
    /// The times at the last look, where they are compared, and when that was.
    var times: FileTimes?
    var compared: Int64 = 0
    /// Whether others may have changed something without that these times tell: in the same tick of the file system's
    /// clock, or while something was changed through the mount.
    var mayHaveMissed = false
    /// When the directories in it were last looked at for changes inside.
    var comparedInside: Int64 = 0
    /// How the entries were listed that have been looked at since changes were reported last; nil was not listed.
    var before: [Projection.Slot: ListedItem?] = [:]
    /// The version of the projection that was listed to somebody who kept the listing.
    var listedVersion: UInt64?
    /// The real names that the news say were renamed, for as long as they are looked at.
    var moved: Set<Name> = []
    /// Display names that stand for something else, or for nothing, because of what was done to others through the mount.
    var displaced: [(slot: Projection.Slot, name: StaleName)] = []
    /// What was made or changed through the mount.
    var altered: [Projection.Slot] = []
  }

  let lock = RecursionFreeLock()
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
  let pending = Guarded(Pending())
  let watch: ChangeWatch?
  let changes: ViewChanges
  let ownChanges: OwnChanges
  let listings: Tally
  let cached: CachedDirectories
  let nodes: NodeTable
  nonisolated(unsafe) private(set) var watchKey: ChangeWatch.Key?

  init(
    node: NodeID, handle: DirectoryHandle, inspector: EntryInspector, site: Site, watch: ChangeWatch?,
    recheck: Int64?, changes: ViewChanges, ownChanges: OwnChanges, listings: Tally,
    cached: CachedDirectories,
    nodes: NodeTable
  ) {
    self.node = node
    self.handle = handle
    protectedRules = Rules(inspector: inspector, site: site)
    self.watch = watch
    self.recheck = recheck
    self.changes = changes
    self.ownChanges = ownChanges
    self.listings = listings
    self.cached = cached
    self.nodes = nodes
    inspector.metadata.look(in: handle.directory)
    guard let watch else { return }
    if recheck == nil { protectedState.ahead = EntriesAhead(of: handle.directory) }
    // Whoever hears of the first change looks when all is set.
    lock.lock()
    defer { lock.unlock() }
    do throws(Errno) {
      watchKey = try watch.watch(handle.directory, hearsEchoes: false) { [weak self] change in
        self?.note(change)
      }
    } catch { lacksWatch = error == .noSpace }
  }

  /// Whether the user's watches were used up when it was made.
  nonisolated(unsafe) private(set) var lacksWatch = false

  deinit {
    if let watchKey { watch?.stop(watchKey) }
    for source in protectedState.inside.values.joined() { watch?.stop(source.key) }
    for key in [protectedState.userDirectories, protectedState.netatalk] { key.map { watch?.stop($0) } }
  }

  /// Where the directory is as of the last look, for code that does not have it locked.
  var lastSite: Site {
    lock.lock()
    defer { lock.unlock() }
    return site
  }

  /// Runs `body` with the projection as the directory is now.
  func withCurrent<R: ~Copyable>(_ body: (borrowing Projection) throws(Errno) -> R) throws(Errno) -> R {
    lock.lock()
    defer { unlock() }
    try refresh()
    return try body(state.projection)
  }

  /// Runs a change of the directory, with nobody else changing it through the mount. `projection` is as the directory
  /// was before; `reconcile` brings it up to date. `body` is told whether the directory may be read; one that may not has
  /// no projection.
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

  /// As `changing` for two directories at once, which may be the same.
  static func changing<R: ~Copyable>(
    _ a: DirectoryView, _ b: DirectoryView, _ body: (_ areReadable: Bool) throws(Errno) -> R
  ) throws(Errno) -> R {
    if a === b { return try a.changing(body) }
    // Always in the same order, so that two renames in opposite directions cannot wait for each other.
    let (first, second) = a.order < b.order ? (a, b) : (b, a)
    return try first.changing { (isFirstReadable) throws(Errno) in
      try second.changing { (isSecondReadable) throws(Errno) in
        try body(isFirstReadable && isSecondReadable)
      }
    }
  }

  /// The projection, for code that runs inside `changing`.
  var projection: Projection { _read { yield state.projection } }

  private var order: UInt { UInt(bitPattern: ObjectIdentifier(self)) }

  var isWatched: Bool { watchKey != nil }

  /// Whether the watch, if there is one, does not tell everything.
  var comparesTimes: Bool { watchKey == nil || recheck != nil }

  func unlock() {
    forgetDisplaced()
    reportChanges()
    lock.unlock()
  }

  /// The directory is about to be listed to somebody who keeps the listing.
  ///
  /// - Returns: whether it still is what was listed to them before.
  func beginKeptListing() throws(Errno) -> Bool {
    lock.lock()
    defer { unlock() }
    try refresh()
    let version = state.projection.version
    defer { state.listedVersion = version }
    return state.listedVersion == version
  }

  func refresh() throws(Errno) {
    if watchKey != nil { watch?.drain() }
    defer { reportChanges() }
    try takeNews()
    if site.place.contains(.cloudContainer) { lookForContainerData() }
  }
}
