import CFuse
import Glibc

/// Long computations for clients, each on a thread of its own: those of one user together get about the CPU share of a few
/// threads, however many run at once.
///
/// Without that, thirty programs that have large packages walked take as much CPU time as thirty programs that compute, on threads
/// that compete with the workers that serve other users. On two processors, with such a user beside it, a rename by another user
/// took up to 1 s.
///
/// The computation that starts as the user's n-th has its nice value raised so that its thread gets 1/n of the CPU share of another
/// thread: together 1 + 1/2 + ... + 1/n, which is 4 for 30. A user's only computation runs as ever.
package enum ProcessorShare {
  private static let running = Guarded<[Int64: Int]>([:])

  /// - Parameter user: as of `dfs_request_user`; -1 for a computation that is not attributed to a user, which runs as ever.
  package static func run<R: ~Copyable, Failure: Error>(
    of user: Int64 = dfs_request_user(), _ body: () throws(Failure) -> R
  ) throws(Failure) -> R {
    guard user >= 0, mayRestore else { return try body() }
    let count = running.withLock { running in
      running[user, default: 0] += 1
      return running[user]!
    }
    let before = Thread.nice
    let raise = niceIncrement(ofRank: count)
    if raise > 0 { Thread.nice = min(before + raise, 19) }
    defer {
      if raise > 0 { Thread.nice = before }
      running.withLock { running in
        running[user]! -= 1
        if running[user] == 0 { running[user] = nil }
      }
    }
    return try body()
  }

  /// By how much a nice value is raised to divide the CPU share by `rank`: each step divides it by 1.25. (sched(7),
  /// `sched_prio_to_weight`)
  static func niceIncrement(ofRank rank: Int) -> CInt {
    CInt((log(Double(min(max(rank, 1), 100))) / log(1.25)).rounded(.up))
  }

  /// Whether a thread may lower its nice value again (CAP_SYS_NICE, or RLIMIT_NICE). Found out with a thread that is needed for
  /// nothing else: without the right its nice value stays raised.
  static let mayRestore: Bool = {
    let result = Guarded(false)
    let thread = Thread {
      let before = Thread.nice
      guard before < 19 else { return }
      Thread.nice = before + 1
      Thread.nice = before
      result.withLock { $0 = Thread.nice == before }
    }
    thread?.join()
    return result.withLock { $0 }
  }()
}
