import DisplayNames
import Glibc
import SystemPackage

/// Names that stand for nothing, which the kernel keeps until they may stand for something.
extension DirectoryView {
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
}
