/// State that is accessible only while its lock is held.
///
/// Used instead of the standard library's `Mutex`: the kernel hands a `Mutex` over to a thread that waits for it, unseen by
/// ThreadSanitizer, which then reports a race for everything that the `Mutex` protects. That hides real races.
///
/// The methods are inlinable, which methods with package access are not: every request passes several of them.
public final class Guarded<State>: @unchecked Sendable {
  @usableFromInline let lock: RecursionFreeLock
  /// The lock excludes conflicting accesses. A dynamic exclusivity check at each access would take longer than most accesses.
  @exclusivity(unchecked) @usableFromInline var state: State

  @inlinable public init(_ state: sending State, rank: LockRank = .leaf) {
    self.state = state
    lock = RecursionFreeLock(rank)
  }

  /// Runs `body` with the state while the lock is held. `body` must not use the same `Guarded` again: that deadlocks. Unless
  /// the lock has another rank, it must use no other lock either.
  @inlinable @inline(__always) public func withLock<Result: ~Copyable, Failure>(
    _ body: (inout State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&state)
  }

  /// Takes values out of the state and destroys them after the lock is released. Closing the last descriptor of a removed file
  /// takes as long as its file system needs to free the blocks, and no other thread must wait for that.
  @inlinable public func discard<Values>(_ body: (inout State) -> sending Values) {
    let values = withLock(body)
    withExtendedLifetime(values) {}
  }
}
