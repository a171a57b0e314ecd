import Glibc

/// What is known of the path walks by which clients reach nodes: which of them the kernel may have led by a name that is stale,
/// which walk again after ESTALE, and which look up what they list.
struct PathWalks: Sendable {
  /// The nodes of files that were moved behind the kernel.
  let moved = MovedNodes()
  /// Keeps a client that got ESTALE for such a file from getting it again.
  let turns = RetryTurns()
  /// Threads that got ESTALE for a node that is open although its name is gone. On a busy machine the kernel's retry has taken
  /// more than 50 ms.
  let retries = StaleRetries(within: .milliseconds(500))
  /// Threads that got ESTALE for an operation with two paths: the kernel walks both paths again before it repeats the request.
  let renameRetries = StaleRetries(within: .seconds(10))
  let linkRetries = StaleRetries(within: .seconds(10))
  let readdirPlusPolicy = ReaddirPlusPolicy()

  /// Called before a thread's lookup is served.
  func beginLookup(in directory: NodeID, by thread: pid_t) { retries.clearRefusal(thread, in: directory) }

  /// Called when a thread's lookup has found an entry.
  func endLookup(of entry: Entry, in directory: NodeID, by thread: pid_t) {
    moved.noteLookup(of: entry.id, by: thread)
    // A client that walks through a tree looks up its directories in any case, so those lookups are not counted.
    if FileType(mode: entry.attributes.st_mode) != .directory {
      readdirPlusPolicy.noteLookup(in: directory, thread)
    }
  }
}
