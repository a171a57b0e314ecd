import DisplayNames

/// Names that stand for nothing, which the kernel may cache as absent until they stand for something.
extension DirectoryView {
  /// Whether a name still stands for nothing, and whoever gives it a meaning from now on has the kernel forget that first.
  func noteAbsent(_ name: Name, _ lease: CacheLease) -> Bool {
    lock.lock()
    defer { lock.unlock() }
    guard state.isRead, isWatched, state.projection.resolve(name.bytes.span) == nil else { return false }
    return lease.noteAbsent(name)
  }

  /// Which of the names that entries have now the kernel may have been told to stand for nothing, and from now on may not.
  func takeAbsent(of slots: [Projection.Slot]) -> [StaleName] {
    guard let kept = cached.directory(node), kept.hasAbsent else { return [] }
    return slots.filter { state.projection.summary(at: $0) != nil }.flatMap { slot in
      [state.projection.displayName(at: slot), state.projection.realName(at: slot)].filter(kept.takeAbsent)
        .map {
          staleName($0, of: slot)
        }
    }
  }
}
