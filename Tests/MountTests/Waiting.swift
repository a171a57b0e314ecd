import Glibc
import Testing

extension Duration {
  /// For what displayfs promises to do at once: a change of the backing tree shows in the view a millisecond later on a quiet
  /// machine.
  ///
  /// A busy machine may add seconds. The kernel's timeouts are a minute: a change that shows only because of a timeout is a
  /// failure.
  static let atOnce = Duration.seconds(5)

  /// How long a path walk waits at most for stale names: another user may hold the lock of their directory for ever. On a busy
  /// machine other clients may hold it for as long, and the notifier thread may wait for a processor.
  static let longestWalk = Duration.milliseconds(80)

  /// For work without a promised duration: a process starts or ends, the daemon deletes a package, memory is returned.
  static let work = Duration.seconds(30)
}

/// Waits until a condition holds, however long one evaluation takes. - Returns: false when it did not hold in time.
func eventually(within bound: Duration = .atOnce, _ condition: () throws -> Bool) rethrows -> Bool {
  let deadline = ContinuousClock.now + bound
  while try !condition() {
    if ContinuousClock.now > deadline { return false }
    usleep(10_000)
  }
  return true
}

/// Waits for a step that a test needs before it can go on.
func waitUntil(
  within bound: Duration = .work, _ location: SourceLocation = #_sourceLocation,
  _ condition: () throws -> Bool
) throws {
  if try eventually(within: bound, condition) { return }
  Issue.record("what the test waits for did not happen within \(bound)", sourceLocation: location)
}

/// Expects what a path walk shows after a change through the mount: at once, or soon where the walk need not wait any longer.
///
/// - Parameter change: when the change began.
func expectWalk(
  since change: ContinuousClock.Instant, _ comment: Comment? = nil,
  _ location: SourceLocation = #_sourceLocation, _ condition: () -> Bool
) {
  if condition() { return }
  let age = ContinuousClock.now - change
  #expect(age >= .longestWalk, comment, sourceLocation: location)
  let isShown = eventually(condition)
  #expect(isShown, comment, sourceLocation: location)
}
