import CLinux
import Glibc

/// A POSIX thread, for work that may block for long. A Swift task must not block.
public struct Thread: Sendable {
  private let id: pthread_t

  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Starts a thread. Nil when the system has no thread left.
  public init?(_ run: @escaping @Sendable () -> Void) {
    let body = Unmanaged.passRetained(Body(run))
    var id = pthread_t()
    let error = pthread_create(
      &id, nil,
      { argument in
        dfs_run_as_first_thread()
        Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue().run()
        return nil
      }, body.toOpaque())
    guard error == 0 else {
      body.release()
      return nil
    }
    self.id = id
  }

  /// The kernel's id of the calling thread. (`gettid`)
  package static var current: pid_t { dfs_gettid() }

  /// Raises the calling thread's priority if the process is privileged: nice -10, about nine times the CPU share of other
  /// threads. (setpriority(2), which affects one thread on Linux)
  package static func raisePriority() { nice = -10 }

  /// The calling thread's nice value. Setting it has no effect where the process lacks the privilege. (setpriority(2))
  static var nice: CInt {
    get { getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0) }
    set { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, newValue) }
  }

  public func join() { pthread_join(id, nil) }
  public func detach() { pthread_detach(id) }
}
