import DisplayNames

/// Names that do not resolve. The kernel may cache negative entries of them until they do.
extension DirectoryView {
  /// Records that the kernel is about to cache a negative entry. Any change that makes the name resolve from then on invalidates
  /// it first.
  ///
  /// - Returns: false when the kernel must not cache it.
  func noteNegativeEntry(_ name: Name, _ version: DirectoryVersion) -> Bool {
    lock.lock()
    defer { lock.unlock() }
    // A name that several entries match resolves once all but one of them are gone. No watch reports that an entry can be read
    // again.
    guard state.isRead, state.unread.isEmpty, isWatched, version.directory === watched,
      state.projection.resolve(name.bytes.span) == nil,
      state.projection.matches(of: name.bytes.span) == .none
    else { return false }
    return version.noteNegativeEntry(name, state.projection.matching)
  }

  /// The names of some entries of which the kernel may hold a negative entry, which has to be invalidated.
  func negativeEntries(of slots: [Projection.Slot]) -> [(entry: NegativeEntry, slot: Projection.Slot)] {
    guard watched.hasNegativeEntries else { return [] }
    return slots.filter { state.projection.summary(at: $0) != nil }.flatMap { slot in
      [state.projection.displayName(at: slot), state.projection.realName(at: slot)]
        .flatMap { watched.negativeEntries(equalTo: $0, by: state.projection.matching) }
        .map { ($0, slot) }
    }
  }
}
