/// State that only the holder of its lock can reach.
///
/// Instead of the standard library's `Mutex`, whose waiting ThreadSanitizer does not understand: it takes whatever that
/// protects for a race, and real ones drown among those.
///
/// Its methods are compiled where they are used, as those of what has package access are not: each request passes several.
public final class Guarded<State>: @unchecked Sendable {
  @usableFromInline let lock = RecursionFreeLock()
  /// The lock sees to it that nobody reads what somebody else writes; to have that checked at each access takes longer than
  /// most accesses do.
  @exclusivity(unchecked) @usableFromInline var state: State

  @inlinable public init(_ state: sending State) { self.state = state }

  /// Runs `body` alone with the state. `body` must not ask for the same state again.
  @inlinable @inline(__always) public func withLock<Result: ~Copyable, Failure>(
    _ body: (inout State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&state)
  }
}
