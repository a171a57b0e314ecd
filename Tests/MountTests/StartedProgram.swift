import BackingTree
import Dispatch
import Glibc
import Synchronization

/// A child process that a test started and that runs beside it.
///
/// A thread reaps it as soon as it ends, whatever becomes of the test. Nothing else can be relied on: the testing library waits
/// for any child when it waits for its own, and a zombie that stays makes it wait for ever.
final class StartedProgram: Sendable {
  let id: pid_t
  private let status = Mutex<CInt?>(nil)
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
    // Its id stays its own until it is reaped, which no signal may come between.
    var information = siginfo_t()
    while waitid(P_PID, id_t(id), &information, WEXITED | WNOWAIT) != 0 && errno == EINTR {}
    status.withLock { $0 = Shell.reap(id) }
    end.leave()
  }
}
