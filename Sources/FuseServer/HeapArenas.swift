import CFuse

/// The arenas of glibc's malloc(3), each with a lock.
enum HeapArenas {
  /// More threads than the daemon ever has.
  private static let limit: CInt = 512

  /// Lets each thread have an arena of its own. By default eight threads for each processor share one, and a thread that is
  /// preempted while it holds the lock of an arena, for a client that keeps all processors busy, delays the threads that serve
  /// other clients: beside such a user on two processors a change in the backing tree showed after up to 190 ms, with an arena for
  /// each thread after up to 100 ms. Call before threads start.
  static func allowOnePerThread() { dfs_allow_arenas(limit) }
}
