import BackingTree
import DisplayNames

/// Detects changes in how entries are listed, reports them, and invalidates stale names.
extension DirectoryView {
  /// The display names, other than real names, by which the kernel may know entries, as of the last look at the directory.
  ///
  /// - Parameter waits: whether to wait until no thread works with the directory. A thread that has a directory view locked must
  ///   not wait.
  /// - Returns: nil when the directory is locked, perhaps by the calling thread, and `waits` is false.
  func displayNames(waits: Bool) -> [StaleName]? {
    if waits { lock.lock() } else if !lock.tryLock() { return nil }
    defer { unlock() }
    return (0..<state.projection.slotLimit).compactMap { slot in
      guard let item = listingEntry(slot), item.name != item.realName, mayBeKnown(slot, by: item.name) else {
        return nil
      }
      return item.staleName
    }
  }

  /// Records how an entry, and all entries whose names depend on it, are listed before a change of the entry.
  func recordListing(of name: Name, becoming child: Projection.Child?, _ isOwn: Bool) {
    guard state.isRead, changeQueue.isCollecting else { return }
    for rival in state.projection.rivals(of: name, becoming: child) {
      recordListing(rival)
      guard isOwn else { continue }
      state.ownEffects.altered.append(rival)
      let name = state.projection.displayName(at: rival)
      if mayBeKnown(rival, by: name) {
        state.ownEffects.displaced.append((rival, staleName(name, of: rival)))
      }
    }
    if isOwn, state.baseline.before.isEmpty { return }
    guard let slot = state.projection.slot(realName: name.bytes.span) else { return }
    if isOwn { state.baseline.before[slot] = nil } else { recordListing(slot) }
  }

  /// Whether the kernel may know an entry by a display name that, once it is gone, leads nowhere or to another entry.
  private func mayBeKnown(_ slot: Projection.Slot, by name: Name) -> Bool {
    guard let summary = state.projection.summary(at: slot) else { return false }
    // A package's real name leads to the directory, but to the file while it is the display name as well.
    if summary.kind == .package, inspector.options.packages == .file { return true }
    let real = state.projection.realName(at: slot)
    // The real name still leads to the entry afterwards.
    if name == real { return false }
    return CName(real).withPointer {
      nodes.mayBeKnownByDisplayName(
        identity(slot, inode: summary.inode), nodeKind: .plain, at: node, $0)
    }
  }

  /// Records how an entry is listed, unless it was recorded since changes were reported last.
  func recordListing(_ slot: Projection.Slot) {
    if state.baseline.before.index(forKey: slot) == nil {
      state.baseline.before.updateValue(listingEntry(slot), forKey: slot)
    }
  }

  /// How an entry is listed now; nil when it is not listed.
  func listingEntry(_ slot: Projection.Slot) -> ListingEntry? {
    guard let summary = state.projection.summary(at: slot), !summary.isHidden else { return nil }
    let real = state.projection.realName(at: slot)
    let nodeKind = summary.kind.nodeKind(packages: inspector.options.packages)
    return ListingEntry(
      directory: node, name: state.projection.displayName(at: slot), realName: real,
      identity: identity(slot, inode: summary.inode), nodeKind: nodeKind,
      type: nodeKind == .packageFile ? .regular : FileType(direntType: summary.entryType),
      wasMoved: state.baseline.moved.contains(real), isRemade: state.baseline.remade.contains(real))
  }

  /// Reports the differences from the recorded listing.
  func reportChanges() {
    defer { reportMetadata() }
    if !state.baseline.before.isEmpty {
      var vanished: [ViewChange] = []
      var others: [ViewChange] = []
      for (slot, before) in state.baseline.before {
        for change in ViewChange.between(before, listingEntry(slot)) {
          if case .vanished = change { vanished.append(change) } else { others.append(change) }
        }
      }
      state.baseline.before = [:]
      // First what vanished, as `ViewChange.inOrder` expects.
      changeQueue.report(vanished + others)
    }
    state.baseline.moved = []
    state.baseline.remade = []
  }

  /// Reports changes of metadata that other files hold as changes of attributes.
  private func reportMetadata() {
    guard !state.baseline.metadata.isEmpty else { return }
    if inspector.options.finderInfo != .off {
      changeQueue.report(
        state.baseline.metadata.compactMap { name in
          state.projection.slot(realName: name.bytes.span).flatMap(listingEntry).map { .attributes($0) }
        })
    }
    state.baseline.metadata = []
  }

  /// Invalidates the names that stand for something else after a change through the mount, before the reply to that change.
  func invalidateDisplaced() {
    guard !state.ownEffects.displaced.isEmpty || !state.ownEffects.altered.isEmpty else { return }
    defer {
      state.ownEffects.displaced.removeAll(keepingCapacity: true)
      state.ownEffects.altered.removeAll(keepingCapacity: true)
    }
    let absent = negativeEntries(of: state.ownEffects.altered)
    var names = absent.map { staleName($0.entry.name, of: $0.slot) }
    for (slot, stale) in state.ownEffects.displaced {
      let shown = state.projection.summary(at: slot).map { _ in state.projection.displayName(at: slot) }
      if shown == stale.name { continue }
      names.append(stale)
      // By this name the kernel may know the directory of a package, which is a file by its display name.
      if let shown, shown == state.projection.realName(at: slot) { names.append(staleName(shown, of: slot)) }
    }
    guard !names.isEmpty else { return }
    cached.kernel?.invalidateBeforeNextWalk(names)
    watched.removeNegativeEntries(absent.map(\.entry))
  }

  /// The record for the invalidation of a name by which the kernel may know an entry.
  func staleName(_ name: Name, of slot: Projection.Slot) -> StaleName {
    let isDirectory =
      state.projection.summary(at: slot).map { FileType(direntType: $0.entryType) == .directory } ?? true
    return StaleName(name, in: node, mayBeDirectory: isDirectory)
  }

  /// The display name of an entry as of the last look, for code that has no directory view locked.
  func lastDisplayName(_ real: Name) -> Name? {
    lock.lock()
    defer { lock.unlock() }
    return listedDisplayName(real)
  }

  /// The display name of an entry as of the last look; nil also while any thread, the calling one included, has the directory
  /// locked.
  func displayNameUnlessLocked(_ real: Name) -> Name? {
    guard lock.tryLock() else { return nil }
    defer { lock.unlock() }
    return listedDisplayName(real)
  }

  /// The real name that a name stands for as of the last look; nil also while any thread, the calling one included, has the
  /// directory locked.
  func realNameUnlessLocked(_ name: Name) -> Name? {
    guard lock.tryLock() else { return nil }
    defer { lock.unlock() }
    return state.projection.resolve(name.bytes.span).map { state.projection.realName(at: $0.slot) }
  }

  /// The role by which the entries will be inspected next; nil while any thread, the calling one included, has the directory
  /// locked.
  func nextRoleUnlessLocked() -> DirectoryRole? {
    if let rules = watched.changes.pendingRules { return rules.site.role }
    guard lock.tryLock() else { return nil }
    defer { lock.unlock() }
    return site.role
  }

  /// The display name of an entry as of the last look, for code that runs inside `changing`.
  func listedDisplayName(_ real: Name) -> Name? {
    guard let slot = state.projection.slot(realName: real.bytes.span) else { return nil }
    return listingEntry(slot)?.name
  }
}
