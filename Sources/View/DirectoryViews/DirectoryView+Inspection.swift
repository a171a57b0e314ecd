import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Inspects the entries that pending changes affect.
extension DirectoryView {
  /// Inspects every directory in this one that has changed inside since its last inspection. Called before a listing. It costs
  /// one system call for each directory, as often as times are compared.
  func inspectChangedSubdirectories() throws(Errno) {
    guard comparesTimes else { return }
    lock.lock()
    defer { unlock() }
    try refresh()
    let now = monotonicNanoseconds()
    if isWatched, let recheck, now - state.times.lastComparisonInside < recheck { return }
    state.times.lastComparisonInside = now
    for (slot, times) in state.times.inside {
      guard state.projection.summary(at: slot) != nil else {
        state.times.inside[slot] = nil
        continue
      }
      let name = state.projection.realName(at: slot)
      if (CName(name).withPointer { try? FileTimes(handle.status($0)) }) != times {
        inspect(name)
      }
    }
  }

  /// Records a change inside the entry of that name that may affect how the entry itself is shown.
  func noteChangeInside(_ name: Name) { watched.changes.inspectAgain { $0.names.insert(name) } }

  /// Records a change of another file that holds metadata of the entry of that name.
  func noteMetadataChange(of name: Name) {
    watched.changes.inspectAgain {
      $0.names.insert(name)
      $0.metadata.insert(name)
    }
  }

  /// Records that all entries must be inspected again, because something that decides how they are shown has changed.
  func noteAllChanged() { watched.changes.inspectAgain { $0.isEverything = true } }

  /// Records that all entries must be inspected again by other rules, or at another place.
  func adopt(_ inspector: EntryInspector, _ site: Site) {
    watched.changes.inspectAgain { uninspected in
      uninspected.rules = Rules(inspector: inspector, site: site)
      uninspected.isEverything = true
    }
  }

  /// Processes the pending changes that no other thread has taken, and reports them. Called by the change loop.
  func processPendingChanges(_ unreported: PendingChanges.Unreported) {
    // Filter before the lock is taken: most changes were made through the mount, and its clients need not wait for this.
    let written = unreported.written.filter(isByOthers)
    let attributes = unreported.attributes.subtracting(unreported.written).filter(isByOthers)
    lock.lock()
    defer { unlock() }
    try? refresh()
    // Filter again: a change that is being made through the mount is known as the mount's own once it is complete.
    for name in written where isByOthers(name) { reportInside(name) { .written($0) } }
    for name in attributes where isByOthers(name) { reportInside(name) { .attributes($0) } }
  }

  private func isByOthers(_ name: Name) -> Bool {
    // A change of a directory on which another file system is mounted is not visible.
    guard let status = CName(name).withPointer({ try? handle.status($0) }), !handle.isMounted(status) else {
      return false
    }
    return !ownChanges.contains(status)
  }

  private func reportInside(_ name: Name, _ change: (ListingEntry) -> ViewChange) {
    guard let slot = state.projection.slot(realName: name.bytes.span), let item = listingEntry(slot) else {
      return
    }
    changeQueue.report([change(item)])
  }

  /// Inspects what the pending changes affect, or reads the directory if it is not known what changed.
  func inspectChanged() throws(Errno) {
    let unread = state.unread
    try inspectPending()
    if unread.isEmpty { return }
    // A failing disk may take seconds for each, and every client of the directory waits meanwhile.
    let start = monotonicNanoseconds()
    guard start - state.lastRetry >= Self.retryPause else { return }
    for name in unread.shuffled() where state.unread.contains(name) {
      inspect(name)
      inspectSidecarOwner(name)
      if monotonicNanoseconds() - start > Self.longestRetry { break }
    }
    state.lastRetry = monotonicNanoseconds()
  }

  /// The pause between two rounds of retries, and the longest duration of a round, in nanoseconds.
  private static let (retryPause, longestRetry): (Int64, Int64) = (500_000_000, 50_000_000)

  private func inspectPending() throws(Errno) {
    guard let changed = watched.changes.takeUninspected() else {
      let isOutdated = try state.reading == .current ? haveTimesChanged() : true
      if isOutdated { try readAll() }
      return
    }
    do throws(Errno) { try inspect(changed) } catch {
      // What changed is not pending any more.
      if state.isRead { state.reading = .outdated }
      throw error
    }
  }

  private func inspect(_ changed: PendingChanges.Uninspected) throws(Errno) {
    state.baseline.moved.formUnion(changed.moved)
    if changeQueue.isCollecting {
      state.baseline.metadata.formUnion(changed.metadata)
      for name in changed.names { noteSidecarChange(name) }
    }
    if let rules = changed.rules {
      if state.isRead, changeQueue.isCollecting {
        for slot in 0..<state.projection.slotLimit { recordListing(slot) }
      }
      self.rules = rules
    }
    var isOutdated = changed.isEverything || state.reading != .current
    if changed.haveOwnAttributesChanged, state.audience != Audience(of: handle.directory) {
      isOutdated = true
    }
    if changed.names.contains(".AppleDouble") {
      inspector.metadata.noteNetatalkDirectory()
      isOutdated = true
    }
    if inspector.metadata.mayAppear, !changed.attributes.isEmpty {
      for name in changed.attributes { inspector.metadata.probe(name, in: handle.directory) }
      if inspector.metadata.isPresent { isOutdated = true }
    }
    if isOutdated { return try readAll() }
    if try haveTimesChanged() { return try readAll() }
    var names = changed.names
    if !changed.contents.isEmpty { names.formUnion(changed.contents.filter(inspector.mayAffectOwnListing)) }
    if inspector.metadata.isPresent {
      names.formUnion(changed.attributes)
    } else if inspector.doPermissionsAffectListing {
      names.formUnion(changed.attributes.filter(doPermissionsAffectListing))
    }
    for name in names {
      inspect(name)
      inspectSidecarOwner(name)
    }
  }

  /// Whether the permissions of this entry may decide how it is listed.
  private func doPermissionsAffectListing(of name: Name) -> Bool {
    let entry = state.projection.slot(realName: name.bytes.span).flatMap { state.projection.summary(at: $0) }
    return inspector.mayAffectOwnListing(name) || entry?.entryType == FileType.directory.direntType
  }

  private func haveTimesChanged() throws(Errno) -> Bool {
    guard comparesTimes else { return false }
    let now = monotonicNanoseconds()
    let isDue = now - state.times.lastComparison >= recheck ?? Self.tick
    if isWatched, !isDue { return false }
    if isDue { state.times.lastComparison = now }
    // A network client believes its own copy of the times for up to a minute (nfs(5), acdirmax), unless a program opens the
    // directory by name.
    let status = try isDue ? handle.directory.latestStatus() : handle.directory.status()
    return FileTimes(status) != state.times.own || isDue && state.times.mayHaveMissed
  }

  /// In nanoseconds. Two changes that are further apart have different times on every file system but FAT.
  private static let tick: Int64 = 1_000_000_000
}
