import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the mount remembers of one backing directory: its projection, kept right by the watch on the directory.
///
/// It is read from the disk once; afterwards only the entries that changed are looked at again. Where the directory
/// cannot be watched, its times tell whether it changed.
public final class DirectoryView: Sendable {
  let node: NodeID
  let handle: DirectoryHandle
  /// What the entries are looked at with. Read and replaced inside the lock alone.
  nonisolated(unsafe) private(set) var inspector: EntryInspector
  nonisolated(unsafe) private(set) var site: Site
  /// Nanoseconds after which the times are compared although there is a watch; nil is never.
  private let recheck: UInt64?

  private struct State: ~Copyable {
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
    var compared: UInt64 = 0
    /// Whether others may have changed something without that these times tell: in the same tick of the file system's
    /// clock, or while something was changed through the mount.
    var mayHaveMissed = false
    /// When the directories in it were last looked at for changes inside.
    var comparedInside: UInt64 = 0
    /// How the entries were listed that have been looked at since changes were reported last; nil was not listed.
    var before: [Projection.Slot: ListedItem?] = [:]
    /// The version of the projection that was listed to somebody who kept the listing.
    var listedVersion: UInt64?
    /// The real names that the news say were renamed, for as long as they are looked at.
    var moved: Set<Name> = []
    /// Display names that stand for something else, or for nothing, because of what was done to others through the mount.
    var displaced: [(slot: Projection.Slot, name: Name)] = []
    /// What was made or changed through the mount, as long as names are absent that it may have now.
    var altered: [Projection.Slot] = []
    /// Names of which the kernel may have been told that they stand for nothing.
    var absent: Set<Name> = []
  }

  /// What the watch has told since the last look. Its lock is never held while another is taken.
  private struct Pending {
    var names: Set<Name> = []
    var moved: Set<Name> = []
    var written: Set<Name> = []
    var attributes: Set<Name> = []
    /// Those of `attributes` that nobody has looked at again for how they are shown.
    var flagged: Set<Name> = []
    /// The same of `written`.
    var rewritten: Set<Name> = []
    var everything = false
    /// What everything is to be looked at with from now on.
    var rules: (inspector: EntryInspector, site: Site)?
    /// Whether there is anything that nobody has taken.
    var isNew = false
    /// Whether somebody was told that there is news.
    var isAnnounced = false

    /// What is to be looked at; nil when nothing is.
    mutating func take() -> Pending? {
      guard isNew else { return nil }
      defer {
        names = []
        flagged = []
        rewritten = []
        moved = []
        everything = false
        rules = nil
        isNew = false
      }
      return self
    }
  }

  private let lock = RecursionFreeLock()
  @exclusivity(unchecked) nonisolated(unsafe) private var state = State()
  private let pending = Guarded(Pending())
  private let watch: ChangeWatch?
  private let changes: ViewChanges
  private let ownChanges: OwnChanges
  private let listings: Tally
  private let cached: CachedDirectories
  nonisolated(unsafe) private var watchKey: ChangeWatch.Key?

  init(
    node: NodeID, handle: DirectoryHandle, inspector: EntryInspector, site: Site, watch: ChangeWatch?,
    recheck: UInt64?, changes: ViewChanges, ownChanges: OwnChanges, listings: Tally, cached: CachedDirectories
  ) {
    self.node = node
    self.handle = handle
    self.inspector = inspector
    self.site = site
    self.watch = watch
    self.recheck = recheck
    self.changes = changes
    self.ownChanges = ownChanges
    self.listings = listings
    self.cached = cached
    inspector.metadata.look(in: handle.directory)
    guard let watch else { return }
    if recheck == nil { state.ahead = EntriesAhead(of: handle.directory) }
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
    for source in state.inside.values.joined() { watch?.stop(source.key) }
    for key in [state.userDirectories, state.netatalk] { key.map { watch?.stop($0) } }
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

  /// The names under which entries are listed that are not their real names, as of the last look.
  ///
  /// - Parameter waits: whether to wait for whoever works with the directory, which those who work with one must not.
  /// - Returns: nil when somebody does, who may be the calling thread, and that is not waited for.
  func displayNames(waits: Bool) -> [Name]? {
    if waits { lock.lock() } else if !lock.tryLock() { return nil }
    defer { unlock() }
    return (0..<state.projection.slotLimit).compactMap { slot in
      guard let item = listed(slot), item.name != item.realName else { return nil }
      return item.name
    }
  }

  /// The projection, for code that runs inside `changing`.
  var projection: Projection { _read { yield state.projection } }

  private var order: UInt { UInt(bitPattern: ObjectIdentifier(self)) }

  /// Looks at one entry again, after a change that was made inside `changing`. Whoever made it knows of it: only what it
  /// did to others is reported.
  func reconcile(_ name: Name) {
    look(at: name, isOwn: true)
    noteReconciled(name)
  }

  /// The same, with what was found there since.
  func reconcile(_ name: Name, _ found: stat) {
    upsert(name, found, isOwn: true)
    noteReconciled(name)
  }

  /// The same, after it was removed.
  func reconcileRemoved(_ name: Name) {
    // What others put in its place since is told.
    if comparesTimes { look(at: name, isOwn: true) } else { remove(name, true) }
    noteReconciled(name)
  }

  private func noteReconciled(_ name: Name) {
    lookBeside(name)
    // Whatever others did just before this change or beside it would be taken for a part of it.
    if comparesTimes {
      state.times = try? FileTimes(handle.directory.status())
      state.mayHaveMissed = true
    }
  }

  /// An AppleDouble companion says how its file is shown.
  private func lookBeside(_ name: Name) {
    if let file = name.accompanied { look(at: file) }
  }

  private func look(at name: Name, isOwn: Bool = false) {
    let cName = CName(name)
    do throws(Errno) {
      let found = try cName.withPointer { (name) throws(Errno) in try handle.status(name) }
      upsert(name, found, isOwn: isOwn)
    } catch {
      // Anything else keeps it from being looked at, not from being there.
      if error == .noSuchFileOrDirectory { remove(name, isOwn) }
    }
  }

  private func upsert(_ name: Name, _ found: stat, isOwn: Bool) {
    upsert(name, FileType(mode: found.st_mode), inode: UInt64(found.st_ino), times: FileTimes(found), isOwn)
  }

  var isWatched: Bool { watchKey != nil }

  /// Whether the watch, if there is one, does not tell everything.
  private var comparesTimes: Bool { watchKey == nil || recheck != nil }

  /// - Parameter times: a directory's, if they were asked already.
  private func upsert(
    _ name: Name, _ type: FileType, inode: UInt64, times known: FileTimes? = nil, _ isOwn: Bool = false
  ) {
    // The mount point must not be entered, not even to see how it would be shown.
    let isCovered = handle.holdsMountPoint && CName(name).withPointer { handle.isCovered($0) }
    // Its time first: what changes after that is seen the next time.
    let times =
      comparesTimes && type == .directory && !isCovered
      ? known ?? CName(name).withPointer { try? FileTimes(handle.directory.status($0)) } : nil
    if let file = name.accompanied { state.accompanied.insert(file) }
    var sources: [[UInt8]] = []
    let child =
      isCovered
      ? Projection.Child(realName: name, kind: .directory, inode: inode, entryType: type.direntType)
      : inspector.inspect(
        name: name, type: type, inode: inode, in: handle.directory, at: site, facts: state.facts,
        sideFiles: sideFiles(of: name), sources: &sources)
    remember(name, becoming: child, isOwn)
    let slot = state.projection.upsert(child)
    if isOwn, !state.absent.isEmpty { state.altered.append(slot) }
    if !isOwn, state.isRead, changes.isFollowed, state.before.index(forKey: slot) == nil {
      // It is new: it was not listed before.
      state.before.updateValue(nil, forKey: slot)
    }
    if comparesTimes { state.insideChanged[slot] = times }
    watchInside(name, slot, sources)
  }

  private func remove(_ name: Name, _ isOwn: Bool = false) {
    remember(name, becoming: nil, isOwn)
    state.projection.remove(realName: name)
    if !state.accompanied.isEmpty, let file = name.accompanied { state.accompanied.remove(file) }
  }

  /// Whether netatalk 2 keeps metadata here, for code that runs inside `changing`.
  var hasNetatalkDirectory: Bool { state.facts.hasNetatalkDirectory }

  private func sideFiles(of name: Name) -> FinderMetadata.SideFiles {
    var result: FinderMetadata.SideFiles = state.facts.hasNetatalkDirectory ? .netatalk : []
    if state.accompanied.isEmpty { return result }
    if state.accompanied.contains(name) { result.insert(.appleDouble) }
    if let file = name.accompanied, state.projection.slot(realName: file.bytes.span) != nil {
      result.insert(.ofSibling)
    }
    return result
  }

  // MARK: What became different

  /// Keeps how an entry, and those whose names depend on it, are listed before it changes.
  private func remember(_ name: Name, becoming child: Projection.Child?, _ isOwn: Bool) {
    guard state.isRead, changes.isFollowed else { return }
    for rival in state.projection.rivals(of: name, becoming: child) {
      keep(rival)
      if isOwn { state.displaced.append((rival, state.projection.displayName(at: rival))) }
    }
    guard let slot = state.projection.slot(realName: name.bytes.span) else { return }
    if isOwn { state.before[slot] = nil } else { keep(slot) }
  }

  /// Keeps how an entry is listed, unless that was done since changes were reported last.
  private func keep(_ slot: Projection.Slot) {
    if state.before.index(forKey: slot) == nil { state.before.updateValue(listed(slot), forKey: slot) }
  }

  /// How an entry is listed now, nil when it is not.
  private func listed(_ slot: Projection.Slot) -> ListedItem? {
    guard let summary = state.projection.summary(at: slot), !summary.isHidden else { return nil }
    let real = state.projection.realName(at: slot)
    let isFile = summary.kind == .package && inspector.options.packages == .file
    return ListedItem(
      directory: node, name: state.projection.displayName(at: slot), realName: real,
      identity: FileIdentity(device: handle.identity.device, inode: summary.inode),
      facet: isFile ? .packageFile : .plain,
      type: isFile ? .regular : FileType(direntType: summary.entryType), wasMoved: state.moved.contains(real))
  }

  /// Reports what is different from what was remembered.
  private func reportChanges() {
    if !state.before.isEmpty {
      var vanished: [ViewChange] = []
      var others: [ViewChange] = []
      for (slot, before) in state.before {
        for change in ViewChange.between(before, listed(slot)) {
          if case .vanished = change { vanished.append(change) } else { others.append(change) }
        }
      }
      state.before = [:]
      // A name is free before somebody else gets it.
      changes.report(vanished + others)
    }
    state.moved = []
  }

  /// Before anybody who did that goes on.
  private func forgetDisplaced() {
    guard !state.displaced.isEmpty || !state.altered.isEmpty else { return }
    var names = state.displaced.compactMap { slot, name in
      state.projection.summary(at: slot) == nil || state.projection.displayName(at: slot) != name ? name : nil
    }
    for slot in state.displaced.map(\.slot) + state.altered where state.projection.summary(at: slot) != nil {
      for name in [state.projection.displayName(at: slot), state.projection.realName(at: slot)] {
        if state.absent.remove(name) != nil { names.append(name) }
      }
    }
    state.displaced = []
    state.altered = []
    if !names.isEmpty { cached.forget(names.map { (node, $0) }) }
  }

  // MARK: Names that stand for nothing

  /// More are not kept by the kernel.
  private static let mostAbsent = 1024

  /// As `withCurrent` for what a name stands for. That it stands for nothing the kernel may keep then, if `isAbsent` is asked
  /// once more before it is told.
  func resolving<R>(
    _ name: UnsafePointer<CChar>, _ body: (borrowing Projection) throws(Errno) -> R?
  ) throws(Errno) -> R? {
    lock.lock()
    defer { unlock() }
    try refresh()
    let found = try body(state.projection)
    if found == nil, isWatched, cached.tellsOfAllNames, state.absent.count < Self.mostAbsent {
      state.absent.insert(Name(copying: name))
    }
    return found
  }

  /// Whether a name stands for nothing, and the kernel will hear when it does not any more.
  func isAbsent(_ name: UnsafePointer<CChar>) -> Bool {
    let copy = Name(copying: name)
    lock.lock()
    defer { lock.unlock() }
    return state.absent.contains(copy)
  }

  /// Something was made through the mount by that name, which the kernel knows from that. For code that runs inside
  /// `changing`.
  func noteMade(_ name: Name) { if !state.absent.isEmpty { state.absent.remove(name) } }

  private func unlock() {
    forgetDisplaced()
    reportChanges()
    lock.unlock()
  }

  /// Looks at the news that nobody else has come to look at, and reports them.
  func follow() {
    let (written, attributes) = pending.withLock { pending in
      defer {
        pending.written = []
        pending.attributes = []
        pending.isAnnounced = false
      }
      return (pending.written, pending.attributes.subtracting(pending.written))
    }
    // Most of it was done through the mount, by programs that need not wait until that is seen here.
    let (writtenByOthers, attributesOfOthers) = (written.filter(isByOthers), attributes.filter(isByOthers))
    lock.lock()
    defer { unlock() }
    try? refresh()
    // Once more: what is being made through the mount is known for that when it has been made.
    for name in writtenByOthers where isByOthers(name) { reportInside(name) { .written($0) } }
    for name in attributesOfOthers where isByOthers(name) { reportInside(name) { .attributes($0) } }
  }

  private func isByOthers(_ name: Name) -> Bool {
    guard let status = CName(name).withPointer({ try? handle.status($0) }) else { return false }
    return !ownChanges.areOwn(status)
  }

  private func reportInside(_ name: Name, _ change: (ListedItem) -> ViewChange) {
    guard let slot = state.projection.slot(realName: name.bytes.span), let item = listed(slot) else { return }
    changes.report([change(item)])
  }

  /// Hears of changes of the tables that an entry's localized name comes from. Few entries have any.
  private func watchInside(_ name: Name, _ slot: Projection.Slot, _ sources: [[UInt8]]) {
    guard let watch, !sources.isEmpty || !state.inside.isEmpty && state.inside[slot] != nil else { return }
    let old = state.inside.removeValue(forKey: slot) ?? []
    var new: [(path: [UInt8], key: ChangeWatch.Key)] = []
    for path in sources {
      let source =
        path.first == 0x2f
        ? inspector.metadata.open(beneathSource: path.dropFirst())
        : path.withCName { try? handle.directory.openBeneath($0, O_RDONLY | O_DIRECTORY) }
      guard let source,
        let key = try? watch.watch(
          Directory(descriptor: source.rawValue),
          { [weak self] change in if change.isComplete { self?.noteInside(name) } })
      else { continue }
      new.append((path, key))
    }
    for source in old { watch.stop(source.key) }
    if !new.isEmpty { state.inside[slot] = new }
    // What happened inside before it was watched has not been seen.
    if new.map(\.path) != old.map(\.path) { noteInside(name) }
  }

  /// Looks at every directory in this one that has changed inside since it was looked at. Asked before a listing: one
  /// system call for each directory, as often as times are compared.
  func lookInside() throws(Errno) {
    guard comparesTimes else { return }
    lock.lock()
    defer { unlock() }
    try refresh()
    let now = monotonicNanoseconds()
    if watchKey != nil, let recheck, now - state.comparedInside < recheck { return }
    state.comparedInside = now
    for (slot, times) in state.insideChanged {
      guard state.projection.summary(at: slot) != nil else {
        state.insideChanged[slot] = nil
        continue
      }
      let name = state.projection.realName(at: slot)
      if (CName(name).withPointer { try? FileTimes(handle.directory.status($0)) }) != times {
        look(at: name)
      }
    }
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

  /// Something inside the entry of that name changed that may change how the entry itself is shown.
  func noteInside(_ name: Name) { news { $0.names.insert(name) } }

  /// Everything must be looked at again: what decides how it is shown has changed.
  func noteEverything() { news { $0.everything = true } }

  /// The same, with other rules, or at another place.
  func adopt(_ inspector: EntryInspector, _ site: Site) {
    news { pending in
      pending.rules = (inspector, site)
      pending.everything = true
    }
  }

  private func note(_ change: ChangeWatch.Change) {
    guard change.isComplete, !change.isOwnMereContent else { return }
    news { pending in
      switch change {
      case .entry(let name, let wasMoved):
        let copy = Name(copying: name)
        if wasMoved { pending.moved.insert(copy) }
        pending.names.insert(copy)
        if strcmp(name, ".hidden") == 0 { pending.everything = true }
      case .content(let name, let isOwn):
        let copy = Name(copying: name)
        if changes.isFollowed, !isOwn { pending.written.insert(copy) }
        if change.isMereContent { break }
        if strcmp(name, ".hidden") == 0 { pending.everything = true }
        if strncmp(name, "._", 2) == 0 { pending.names.insert(copy) }
        pending.rewritten.insert(copy)
      case .attributes(let name):
        let copy = Name(copying: name)
        if changes.isFollowed { pending.attributes.insert(copy) }
        pending.flagged.insert(copy)
      case .modification, .itself: break
      case .everything: pending.everything = true
      }
    }
  }

  private func news(_ add: (inout Pending) -> Void) {
    let isFirst = pending.withLock { pending in
      add(&pending)
      pending.isNew = true
      defer { pending.isAnnounced = true }
      return !pending.isAnnounced
    }
    if isFirst { changes.hasNews(self) }
  }

  private func refresh() throws(Errno) {
    if watchKey != nil { watch?.drain() }
    defer { reportChanges() }
    try takeNews()
    if site.place.contains(.cloudContainer) { lookForContainerData() }
  }

  /// One entry stands for all that is hidden as the data of an application.
  private func lookForContainerData() {
    var isShown = false
    if ContainerData.isShown(by: inspector.options) {
      for slot in 0..<state.projection.slotLimit {
        if state.projection.child(at: slot)?.hidden == .containerSupport { isShown = true }
      }
    }
    let name = ContainerData.realName
    if isShown { look(at: name) }
    guard let slot = state.projection.slot(realName: name.bytes.span) else { return }
    // The name of the container may be that of something in it.
    let isNamed = state.projection.rung(of: slot) == .localized
    if !isShown || !isNamed { remove(name) }
  }

  private func takeNews() throws(Errno) {
    guard let news = pending.withLock({ $0.take() }) else {
      let isOutdated = try state.isRead ? haveTimesChanged() : true
      if isOutdated { try readAll() }
      return
    }
    state.moved.formUnion(news.moved)
    if let rules = news.rules {
      if state.isRead, changes.isFollowed {
        for slot in 0..<state.projection.slotLimit { keep(slot) }
      }
      (inspector, site) = rules
    }
    var isOutdated = news.everything || !state.isRead
    if news.names.contains(".AppleDouble") {
      inspector.metadata.hasNetatalkDirectory()
      isOutdated = true
    }
    if inspector.metadata.mayAppear, !news.flagged.isEmpty {
      for name in news.flagged { inspector.metadata.look(at: name, in: handle.directory) }
      if inspector.metadata.isThere { isOutdated = true }
    }
    if isOutdated { return try readAll() }
    if try haveTimesChanged() { return try readAll() }
    var names = news.names
    if !news.rewritten.isEmpty { names.formUnion(news.rewritten.filter(inspector.mayNameItself)) }
    if inspector.metadata.isThere { names.formUnion(news.flagged) }
    for name in names {
      look(at: name)
      lookBeside(name)
    }
  }

  private func haveTimesChanged() throws(Errno) -> Bool {
    guard comparesTimes else { return false }
    let now = monotonicNanoseconds()
    let isDue = now - state.compared >= recheck ?? Self.tick
    if watchKey != nil, !isDue { return false }
    if isDue { state.compared = now }
    return try FileTimes(handle.directory.status()) != state.times || isDue && state.mayHaveMissed
  }

  /// In nanoseconds: two changes further apart have different times on every file system but FAT.
  private static let tick: UInt64 = 1_000_000_000

  /// Hears of a change of `user-dirs.dirs`, once the directory that it is in is there.
  private func watchUserDirectories() {
    guard let watch, let home = inspector.homeOfUserDirectories(at: site),
      // Nobody keeps them deeper, and every directory of a home would want to hear of it.
      home.path.count <= 2,
      let configuration = try? home.handle.directory.openBeneath(".config", O_RDONLY | O_DIRECTORY)
    else { return }
    // Anew each time: the directory may be another than before.
    let old = state.userDirectories
    defer { old.map { watch.stop($0) } }
    state.userDirectories = try? watch.watch(Directory(descriptor: configuration.rawValue)) {
      [weak self] change in
      switch change {
      case .entry(let name, _), .content(let name, _):
        if strcmp(name, "user-dirs.dirs") == 0 { self?.noteEverything() }
      case .attributes, .modification, .itself: break
      case .everything: self?.noteEverything()
      }
    }
  }

  /// Hears of what netatalk 2 writes beside the entries.
  private func watchNetatalk() {
    guard state.facts.hasNetatalkDirectory, let watch,
      let files = try? handle.directory.openBeneath(".AppleDouble", O_RDONLY | O_DIRECTORY)
    else { return }
    let old = state.netatalk
    defer { old.map { watch.stop($0) } }
    state.netatalk = try? watch.watch(Directory(descriptor: files.rawValue)) { [weak self] change in
      switch change {
      case .entry(let name, _), .content(let name, _): self?.noteInside(Name(copying: name))
      case .everything: self?.noteEverything()
      default: break
      }
    }
  }

  /// Reads the directory; entries that were known keep their slots, so that listings under way stay right.
  private func readAll() throws(Errno) {
    listings.countFetched()
    let readable = try handle.directory.openForReading()
    watchUserDirectories()
    let status = try handle.directory.status()
    state.times = FileTimes(status)
    state.mayHaveMissed = comparesTimes && FileTimes.isRecent(status.st_mtim)
    state.facts = inspector.facts(of: handle.directory, at: site)
    watchNetatalk()
    var gone = Set<Name>()
    if state.isRead {
      for slot in 0..<state.projection.slotLimit where state.projection.summary(at: slot) != nil {
        gone.insert(state.projection.realName(at: slot))
      }
    }
    // What is told apart by what it is beside comes when all the rest is known.
    var companions: [(name: Name, type: FileType, inode: UInt64)] = []
    state.accompanied = []
    // No entry of the backing directory stands for it.
    gone.remove(ContainerData.realName)
    // What was there before has to be compared.
    let isFirst = !state.isRead && state.projection.slotLimit == 0 && !handle.holdsMountPoint
    let plain = isFirst ? inspector.plainEntries(at: site, facts: state.facts) : nil
    var filling = ProjectionFilling()
    var others: [(name: Name, type: FileType, inode: UInt64)] = []
    let ahead = state.ahead.take()?.entries(ifTimesAre: status)
    try forEachEntry(of: readable.rawValue, ahead) { (entry) throws(Errno) in
      var type = entry.type
      if let plain, type != .unknown {
        let name = Span(_unsafeElements: entry.name)
        let kind = EntryInspector.kind(of: type)
        if let facts = plain.facts(of: name, kind) {
          filling.add(
            name, kind: kind, inode: entry.inode, entryType: type.direntType, hidden: facts.hidden,
            stemLength: facts.stemLength)
          return
        }
      }
      let name = Name(entry.name)
      if type == .unknown {
        guard let found = try? handle.status(entry.cName) else { return }
        type = FileType(mode: found.st_mode)
      }
      if !gone.isEmpty { gone.remove(name) }
      if name.accompanied != nil {
        companions.append((name, type, entry.inode))
      } else if plain != nil {
        others.append((name, type, entry.inode))
      } else {
        upsert(name, type, inode: entry.inode)
      }
    }
    if plain != nil { state.projection = filling.finish() }
    for other in others { upsert(other.name, other.type, inode: other.inode) }
    for name in gone { remove(name) }
    for companion in companions {
      upsert(companion.name, companion.type, inode: companion.inode)
      lookBeside(companion.name)
    }
    state.isRead = true
  }
}
