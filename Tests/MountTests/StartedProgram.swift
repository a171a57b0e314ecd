import BackingTree
import Dispatch
import Glibc

/// A child process that a test started and that runs beside it.
///
/// A thread reaps it as soon as it ends: a test that fails before it would wait for the program leaves no zombie.
final class StartedProgram: Sendable {
  let id: pid_t
  private let status = Guarded<CInt?>(nil)
  private let end = DispatchGroup()

  init(id: pid_t) {
    self.id = id
    end.enter()
    // No thread is left: the process could not be reaped.
    guard let thread = Thread({ self.reap() }) else { fatalError("no thread can be started") }
    thread.detach()
  }

  /// Waits until it has ended. - Returns: the exit status, or 128 and the number of the signal that ended it.
  @discardableResult
  func wait() -> CInt {
    end.wait()
    return status.withLock { $0! }
  }

  var hasEnded: Bool { status.withLock { $0 != nil } }

  /// Sends a signal, unless the process has ended: another process may have its id by then.
  func send(_ signal: CInt) {
    status.withLock { if $0 == nil { _ = kill(id, signal) } }
  }

  private func reap() {
    // Until it is reaped no other process has its id. The lock keeps `send` from coming between reaping and the record of it.
    var information = siginfo_t()
    while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
    status.withLock { $0 = Shell.reap(id) }
    end.leave()
  }
}
