import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the watch tells, and what is looked at because of it.
extension DirectoryView {
  /// What the watch has told since the last look. Its lock is never held while another is taken.
  struct Pending {
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
    var rules: Rules?
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
      if (CName(name).withPointer { try? FileTimes(handle.status($0)) }) != times {
        look(at: name)
      }
    }
  }

  /// Something inside the entry of that name changed that may change how the entry itself is shown.
  func noteInside(_ name: Name) { news { $0.names.insert(name) } }

  /// Everything must be looked at again: what decides how it is shown has changed.
  func noteEverything() { news { $0.everything = true } }

  /// The same, with other rules, or at another place.
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
    // What happened to a directory that another file system is mounted on does not show.
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
    state.moved.formUnion(news.moved)
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
    let isDue = now - state.compared >= recheck ?? Self.tick
    if watchKey != nil, !isDue { return false }
    if isDue { state.compared = now }
    return try FileTimes(handle.directory.status()) != state.times || isDue && state.mayHaveMissed
  }

  /// In nanoseconds: two changes further apart have different times on every file system but FAT.
  private static let tick: Int64 = 1_000_000_000
}
