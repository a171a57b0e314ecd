import CFuse
import Glibc

/// A thread of the system's: what it does may block for long, which a task of Swift's must not.
public struct Thread: Sendable {
  private let id: pthread_t

  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Nil when the system has no thread left.
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

  /// The calling thread, as the kernel numbers it. (`gettid`)
  package static var current: pid_t { dfs_gettid() }

  /// Has the calling thread scheduled before others, where the process has the privilege: nice -10, nine times the share of a
  /// processor that other threads get. (setpriority(2), which concerns one thread on Linux)
  package static func raisePriority() { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -10) }

  public func join() { pthread_join(id, nil) }
  public func detach() { pthread_detach(id) }
}
