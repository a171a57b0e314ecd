import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Collects the changes that the watch reports, and inspects the entries that they affect.
extension DirectoryView {
  /// The changes that the watch has reported since the last look. No other lock is taken while its lock is held.
  struct Pending {
    var names: Set<Name> = []
    var moved: Set<Name> = []
    var written: Set<Name> = []
    var attributes: Set<Name> = []
    /// The names whose attributes changed, not yet inspected for how they are shown.
    var flagged: Set<Name> = []
    /// The names whose content was written, not yet inspected for how they are shown.
    var rewritten: Set<Name> = []
    var everything = false
    /// The rules by which all entries must be inspected from now on.
    var rules: Rules?
    /// Whether there are changes that were not taken yet.
    var isNew = false
    /// Whether the change loop was notified of pending changes.
    var isAnnounced = false

    /// Removes and returns the changes that require an inspection; nil when there are none.
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

  /// Inspects every directory in this one that has changed inside since its last inspection. Called before a listing. It costs
  /// one system call for each directory, as often as times are compared.
  func lookInside() throws(Errno) {
    guard comparesTimes else { return }
    lock.lock()
    defer { unlock() }
    try refresh()
    let now = monotonicNanoseconds()
    if registration != nil, let recheck, now - state.times.insideCompared < recheck { return }
    state.times.insideCompared = now
    for (slot, times) in state.times.inside {
      guard state.projection.summary(at: slot) != nil else {
        state.times.inside[slot] = nil
        continue
      }
      let name = state.projection.realName(at: slot)
      if (CName(name).withPointer { try? FileTimes(handle.status($0)) }) != times {
        look(at: name)
      }
    }
  }

  /// Records a change inside the entry of that name that may affect how the entry itself is shown.
  func noteInside(_ name: Name) { news { $0.names.insert(name) } }

  /// Records that all entries must be inspected again, because something that decides how they are shown has changed.
  func noteEverything() { news { $0.everything = true } }

  /// Records that all entries must be inspected again by other rules, or at another place.
  func adopt(_ inspector: EntryInspector, _ site: Site) {
    news { pending in
      pending.rules = Rules(inspector: inspector, site: site)
      pending.everything = true
    }
  }

  func note(_ change: ChangeWatch.Change) {
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

  /// Processes the pending changes that no other thread has taken, and reports them. Called by the change loop.
  func follow() {
    let (written, attributes) = pending.withLock { pending in
      defer {
        pending.written = []
        pending.attributes = []
        pending.isAnnounced = false
      }
      return (pending.written, pending.attributes.subtracting(pending.written))
    }
    // Filter before the lock is taken: most changes were made through the mount, and its clients need not wait for this.
    let (writtenByOthers, attributesOfOthers) = (written.filter(isByOthers), attributes.filter(isByOthers))
    lock.lock()
    defer { unlock() }
    try? refresh()
    // Filter again: a change that is being made through the mount is known as the mount's own once it is complete.
    for name in writtenByOthers where isByOthers(name) { reportInside(name) { .written($0) } }
    for name in attributesOfOthers where isByOthers(name) { reportInside(name) { .attributes($0) } }
  }

  private func isByOthers(_ name: Name) -> Bool {
    // A change of a directory on which another file system is mounted is not visible.
    guard let status = CName(name).withPointer({ try? handle.status($0) }), !handle.isMounted(status) else {
      return false
    }
    return !ownChanges.areOwn(status)
  }

  private func reportInside(_ name: Name, _ change: (ListedItem) -> ViewChange) {
    guard let slot = state.projection.slot(realName: name.bytes.span), let item = listed(slot) else { return }
    changes.report([change(item)])
  }

  func takeNews() throws(Errno) {
    guard let news = pending.withLock({ $0.take() }) else {
      let isOutdated = try state.isRead ? haveTimesChanged() : true
      if isOutdated { try readAll() }
      return
    }
    state.unreported.moved.formUnion(news.moved)
    if let rules = news.rules {
      if state.isRead, changes.isFollowed {
        for slot in 0..<state.projection.slotLimit { keep(slot) }
      }
      self.rules = rules
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
    let isDue = now - state.times.compared >= recheck ?? Self.tick
    if registration != nil, !isDue { return false }
    if isDue { state.times.compared = now }
    return try FileTimes(handle.directory.status()) != state.times.own || isDue && state.times.mayHaveMissed
  }

  /// In nanoseconds. Two changes that are further apart have different times on every file system but FAT.
  private static let tick: Int64 = 1_000_000_000
}
