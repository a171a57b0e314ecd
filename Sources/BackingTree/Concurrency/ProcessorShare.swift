import CLinux
import Glibc

/// Divides CPU time among users: the workers that walk packages for one user together get the CPU share of a few threads, however
/// many there are.
///
/// Otherwise thirty clients of one user that stat large packages keep thirty workers computing, and the workers that serve other
/// users wait for a processor. On two processors the longest operation of another user took 400 to 764 ms in 30 s, and 100 ms with
/// this (`Mount/attack 30 --pattern everything`, six and two runs).
///
/// While a user has n - 1 walks, the thread of the next one has its nice value raised so that it gets 1/n of the CPU share of an
/// ordinary thread: together 1 + 1/2 + ... + 1/n, which is 4 for 30. A user's only walk keeps its thread's nice value.
package enum ProcessorShare {
  private static let running = Guarded<[Int64: Int]>([:])

  /// - Parameter user: the user of the client (`dfs_request_user`); for -1, no user, the nice value stays.
  package static func run<R: ~Copyable, Failure: Error>(
    of user: Int64 = dfs_request_user(), _ body: () throws(Failure) -> R
  ) throws(Failure) -> R {
    guard user >= 0, canRestoreNice else { return try body() }
    let rank = running.withLock { running in
      running[user, default: 0] += 1
      return running[user]!
    }
    defer {
      running.withLock { running in
        running[user]! -= 1
        if running[user] == 0 { running[user] = nil }
      }
    }
    guard rank > 1 else { return try body() }
    let before = Thread.nice
    Thread.nice = min(before + niceIncrement(ofRank: rank), 19)
    defer { Thread.nice = before }
    return try body()
  }

  /// By how much a nice value is raised to divide the CPU share by `rank`: each step divides it by 1.25. (sched(7),
  /// `sched_prio_to_weight`)
  static func niceIncrement(ofRank rank: Int) -> CInt {
    CInt((log(Double(min(max(rank, 1), 100))) / log(1.25)).rounded(.up))
  }

  /// Whether a thread may lower its nice value again (CAP_SYS_NICE, or RLIMIT_NICE). Found out with a thread that is needed for
  /// nothing else: without the right its nice value stays raised.
  static let canRestoreNice: Bool = {
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
