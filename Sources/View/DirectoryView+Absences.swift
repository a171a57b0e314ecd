import DisplayNames

/// Names that stand for nothing, which the kernel keeps until they may stand for something.
extension DirectoryView {
  /// More are not kept by the kernel.
  private static let mostAbsent = 1024

  /// Whether a name still stands for nothing, and whoever gives it a meaning from now on has the kernel forget that first.
  func noteAbsent(_ name: UnsafePointer<CChar>) -> Bool {
    let copy = Name(copying: name)
    lock.lock()
    defer { lock.unlock() }
    guard state.isRead, isWatched, cached.tellsOfAllNames, state.projection.resolve(copy.bytes.span) == nil
    else {
      return false
    }
    if state.absent.count < Self.mostAbsent { state.absent.insert(copy) }
    return state.absent.contains(copy)
  }

  /// Whether the kernel may have been told that a name stands for nothing. Whoever asks has it forget that.
  func takeAbsent(_ name: Name) -> Bool {
    lock.lock()
    defer { lock.unlock() }
    return state.absent.remove(name) != nil
  }

  /// Something was made through the mount by that name, which the kernel knows from that. For code that runs inside
  /// `changing`.
  func noteMade(_ name: Name) { if !state.absent.isEmpty { state.absent.remove(name) } }
}
