import CLinux

/// The arenas of glibc's malloc(3), each with a lock.
enum HeapArenas {
  /// Twice the number of workers. Beyond that, with hundreds of notifier threads, threads share arenas again.
  private static let limit: CInt = 512

  /// Lets each thread have an arena of its own. By default there are at most eight arenas for each processor, which more threads
  /// share, and a thread that is preempted while it holds the lock of an arena delays the others. Where a client kept both
  /// processors busy, the change loop was seen to wait for such a lock: the longest operation of another user took 186 and 147 ms in
  /// 60 s, and 175 and 242 ms with an arena for each thread, but a change in the backing tree was shown after 75 and 103 ms at most
  /// instead of 186 and 147. Call before threads start.
  static func allowOnePerThread() { dfs_allow_arenas(limit) }
}
