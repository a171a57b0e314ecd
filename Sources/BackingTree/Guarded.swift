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

  /// Takes values out of the state. They end once the lock is released: to close the last descriptor of a removed file takes
  /// as long as its file system needs to free the blocks, and no other thread must wait for that.
  @inlinable public func discard<Values>(_ body: (inout State) -> sending Values) {
    let values = withLock(body)
    withExtendedLifetime(values) {}
  }
}
