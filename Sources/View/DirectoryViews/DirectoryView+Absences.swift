import DisplayNames

/// Names that do not resolve. The kernel may cache negative entries of them until they do.
extension DirectoryView {
  /// Records that the kernel is about to cache a negative entry. Any change that makes the name resolve from then on invalidates
  /// it first.
  ///
  /// - Returns: false when the kernel must not cache it.
  func noteAbsent(_ name: Name, _ lease: CacheLease) -> Bool {
    lock.lock()
    defer { lock.unlock() }
    guard state.isRead, isWatched, lease.directory === watched,
      state.projection.resolve(name.bytes.span) == nil
    else { return false }
    return lease.noteAbsent(name)
  }

  /// Removes the names of some entries from the record of negative entries.
  ///
  /// - Returns: the names of which the kernel may hold a negative entry, which has to be invalidated.
  func takeAbsent(of slots: [Projection.Slot]) -> [StaleName] {
    guard watched.hasAbsent else { return [] }
    return slots.filter { state.projection.summary(at: $0) != nil }.flatMap { slot in
      [state.projection.displayName(at: slot), state.projection.realName(at: slot)].filter(watched.takeAbsent)
        .map {
          staleName($0, of: slot)
        }
    }
  }
}
