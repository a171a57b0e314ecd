/// State that only the holder of its lock can reach.
///
/// Instead of the standard library's `Mutex`, whose waiting ThreadSanitizer does not understand: it takes whatever that
/// protects for a race, and real ones drown among those.
package final class Guarded<State>: @unchecked Sendable {
  private let lock = RecursionFreeLock()
  private var state: State

  package init(_ state: sending State) { self.state = state }

  /// Runs `body` alone with the state. `body` must not ask for the same state again.
  package func withLock<Result: ~Copyable, Failure>(
    _ body: (inout State) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&state)
  }
}
