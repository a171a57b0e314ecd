import BackingTree
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

  /// Records that a thread gets ESTALE for some nodes. The kernel walks the path again, once, and what it looks up then counts.
  /// Waits until a replayed rename of one of the files that is under way has ended, at most 100 ms.
  ///
  /// Such a rename notes its move before it ends, and a refusal that was recorded before that would be discarded: the thread
  /// would be refused again. Where the rename does not end in time, nothing is recorded: the kernel may still look up the new
  /// name for a client that gave the old one.
  func noteRefusal(of nodes: [(node: NodeID, file: FileIdentity)], by thread: pid_t) {
    guard turns.noteRefusal(of: Set(nodes.map(\.file)), by: thread) else { return }
    for (node, _) in nodes { moved.noteRefusal(of: node, by: thread) }
  }

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
