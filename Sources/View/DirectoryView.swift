import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the mount remembers of one backing directory: its projection, kept right by the watch on the directory.
///
/// It is read from the disk once; afterwards only the entries that changed are looked at again. Where the directory
/// cannot be watched, its times tell whether it changed.
public final class DirectoryView: Sendable {
  let handle: DirectoryHandle
  let inspector: EntryInspector
  let site: Site

  private struct State {
    var projection = Projection()
    var facts = EntryInspector.DirectoryFacts()
    /// The names of what `._name` files are beside, whether that is there or not.
    var accompanied: Set<Name> = []
    var isRead = false
    /// When each directory in it last changed: a marker that appears inside one changes how it is listed.
    var insideChanged: [Projection.Slot: FileTimes] = [:]
    /// The watches on what is inside an entry and says how it is listed.
    var inside: [Projection.Slot: [ChangeWatch.Key]] = [:]
    /// The times at the last look, where there is no watch.
    var times: FileTimes?
  }

  /// What the watch has told since the last look. Its lock is never held while another is taken.
  private struct Pending {
    var names: Set<Name> = []
    var everything = false
  }

  private let lock = RecursionFreeLock()
  nonisolated(unsafe) private var state = State()
  private let pending = Guarded(Pending())
  private let watch: ChangeWatch?
  nonisolated(unsafe) private var watchKey: ChangeWatch.Key?

  init(handle: DirectoryHandle, inspector: EntryInspector, site: Site, watch: ChangeWatch?) {
    self.handle = handle
    self.inspector = inspector
    self.site = site
    self.watch = watch
    inspector.metadata.look(in: handle.directory)
    guard let watch else { return }
    watchKey = try? watch.watch(handle.directory, attributes: inspector.metadata.isThere) {
      [weak self] change in self?.note(change)
    }
  }

  deinit {
    if let watchKey { watch?.stop(watchKey) }
    for key in state.inside.values.joined() { watch?.stop(key) }
  }

  /// Runs `body` with the projection as the directory is now.
  func withCurrent<R: ~Copyable>(_ body: (borrowing Projection) throws(Errno) -> R) throws(Errno) -> R {
    lock.lock()
    defer { lock.unlock() }
    try refresh()
    return try body(state.projection)
  }

  /// Runs a change of the directory, with nobody else changing it through the mount. `projection` is as the directory
  /// was before; `reconcile` brings it up to date. `body` is told whether the directory may be read; one that may not has
  /// no projection.
  func changing<R: ~Copyable>(_ body: (_ isReadable: Bool) throws(Errno) -> R) throws(Errno) -> R {
    lock.lock()
    defer { lock.unlock() }
    var isReadable = true
    do throws(Errno) { try refresh() } catch {
      guard error == .permissionDenied else { throw error }
      isReadable = false
    }
    return try body(isReadable)
  }

  /// As `changing` for two directories at once, which may be the same.
  static func changing<R: ~Copyable>(
    _ a: DirectoryView, _ b: DirectoryView, _ body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    // Always in the same order, so that two renames in opposite directions cannot wait for each other.
    let (first, second) = a.order < b.order ? (a, b) : (b, a)
    first.lock.lock()
    defer { first.lock.unlock() }
    try first.refresh()
    if a === b { return try body() }
    second.lock.lock()
    defer { second.lock.unlock() }
    try second.refresh()
    return try body()
  }

  /// The projection, for code that runs inside `changing`.
  var projection: Projection { state.projection }

  private var order: UInt { UInt(bitPattern: ObjectIdentifier(self)) }

  /// Looks at one entry again, after a change that was made inside `changing`.
  func reconcile(_ name: Name) {
    reconcileAlone(name)
    // An AppleDouble companion says how its file is shown.
    if let file = name.accompanied { reconcileAlone(file) }
  }

  private func reconcileAlone(_ name: Name) {
    let cName = CName(name)
    let found: stat? = cName.withPointer { try? handle.status($0) }
    if let found {
      upsert(name, FileType(mode: found.st_mode), inode: UInt64(found.st_ino), times: FileTimes(found))
    } else {
      remove(name)
    }
    if watchKey == nil { state.times = try? FileTimes(handle.directory.status()) }
  }

  /// - Parameter times: a directory's, if they were asked already.
  private func upsert(_ name: Name, _ type: FileType, inode: UInt64, times known: FileTimes? = nil) {
    // The mount point must not be entered, not even to see how it would be shown.
    let isCovered = CName(name).withPointer { handle.isCovered($0) }
    // Its time first: what changes after that is seen the next time.
    let times =
      type == .directory && !isCovered
      ? known ?? CName(name).withPointer { try? FileTimes(handle.directory.status($0)) } : nil
    if let file = name.accompanied { state.accompanied.insert(file) }
    var sources: [[UInt8]] = []
    let slot = state.projection.upsert(
      isCovered
        ? Projection.Child(realName: name, kind: .directory, inode: inode, entryType: type.direntType)
        : inspector.inspect(
          name: name, type: type, inode: inode, in: handle.directory, at: site, facts: state.facts,
          sideFiles: sideFiles(of: name), sources: &sources))
    state.insideChanged[slot] = times
    watchInside(name, slot, sources)
  }

  private func remove(_ name: Name) {
    state.projection.remove(realName: name)
    if !state.accompanied.isEmpty, let file = name.accompanied { state.accompanied.remove(file) }
  }

  private func sideFiles(of name: Name) -> FinderMetadata.SideFiles {
    var result: FinderMetadata.SideFiles = state.facts.hasNetatalkDirectory ? .netatalk : []
    if state.accompanied.isEmpty { return result }
    if state.accompanied.contains(name) { result.insert(.appleDouble) }
    if let file = name.accompanied, state.projection.slot(realName: file.bytes.span) != nil {
      result.insert(.ofSibling)
    }
    return result
  }

  /// Hears of changes of the tables that an entry's localized name comes from. Few entries have any.
  private func watchInside(_ name: Name, _ slot: Projection.Slot, _ sources: [[UInt8]]) {
    for key in state.inside.removeValue(forKey: slot) ?? [] { watch?.stop(key) }
    guard let watch, !sources.isEmpty else { return }
    state.inside[slot] = sources.compactMap { path in
      path.withCName { path in
        guard let source = try? handle.directory.openBeneath(path, O_RDONLY | O_DIRECTORY) else { return nil }
        return try? watch.watch(Directory(descriptor: source.rawValue), attributes: false) { [weak self] _ in
          self?.noteInside(name)
        }
      }
    }
  }

  /// Looks at every directory in this one that has changed inside since it was looked at. Asked before a listing: one
  /// system call for each directory.
  func lookInside() throws(Errno) {
    lock.lock()
    defer { lock.unlock() }
    try refresh()
    for (slot, times) in state.insideChanged {
      guard state.projection.summary(at: slot) != nil else {
        state.insideChanged[slot] = nil
        continue
      }
      let name = state.projection.realName(at: slot)
      if (CName(name).withPointer { try? FileTimes(handle.directory.status($0)) }) != times {
        reconcile(name)
      }
    }
  }

  /// Something inside the entry of that name changed that may change how the entry itself is shown.
  func noteInside(_ name: Name) { pending.withLock { _ = $0.names.insert(name) } }

  /// Everything must be looked at again: the rules have changed.
  func noteEverything() { pending.withLock { $0.everything = true } }

  private func note(_ change: ChangeWatch.Change) {
    pending.withLock { pending in
      switch change {
      case .entry(let name):
        pending.names.insert(Name(copying: name))
        if strcmp(name, ".hidden") == 0 { pending.everything = true }
      case .content(let name):
        if strcmp(name, ".hidden") == 0 { pending.everything = true }
        if strncmp(name, "._", 2) == 0 { pending.names.insert(Name(copying: name)) }
      case .everything: pending.everything = true
      }
    }
  }

  private func refresh() throws(Errno) {
    if watchKey != nil { watch?.drain() }
    let (names, everything) = pending.withLock { pending in
      defer {
        pending.names = []
        pending.everything = false
      }
      return (pending.names, pending.everything)
    }
    if everything || !state.isRead { return try readAll() }
    if watchKey == nil, FileTimes(try handle.directory.status()) != state.times { return try readAll() }
    for name in names { reconcile(name) }
  }

  /// Reads the directory; entries that were known keep their slots, so that listings under way stay right.
  private func readAll() throws(Errno) {
    let readable = try handle.directory.openForReading()
    state.times = FileTimes(try handle.directory.status())
    state.facts = inspector.facts(of: handle.directory, at: site.place)
    var gone = Set<Name>()
    if state.isRead {
      for slot in 0..<state.projection.slotLimit where state.projection.summary(at: slot) != nil {
        gone.insert(state.projection.realName(at: slot))
      }
    }
    try forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in
      let name = Name(entry.name)
      var type = entry.type
      if type == .unknown {
        guard let found = try? handle.status(entry.cName) else { return }
        type = FileType(mode: found.st_mode)
      }
      upsert(name, type, inode: entry.inode)
      if !gone.isEmpty { gone.remove(name) }
    }
    for name in gone { remove(name) }
    for companion in state.accompanied.compactMap(\.companion) { reconcile(companion) }
    state.isRead = true
  }
}

/// When a file's content and its status last changed.
private struct FileTimes: Equatable {
  private let seconds: (Int, Int)
  private let nanoseconds: (Int, Int)

  init(_ status: stat) {
    seconds = (status.st_mtim.tv_sec, status.st_ctim.tv_sec)
    nanoseconds = (status.st_mtim.tv_nsec, status.st_ctim.tv_nsec)
  }

  static func == (a: Self, b: Self) -> Bool { a.seconds == b.seconds && a.nanoseconds == b.nanoseconds }
}
