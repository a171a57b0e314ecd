import BackingTree
import Glibc
import Synchronization

/// The nodes of files that another process has just renamed in the backing tree.
///
/// The kernel resolves a path to a node and sends the node, not the name. A client may have walked to the node by the old name
/// before the kernel dropped that name, and its request may be held up until the daemon has followed the move (SETATTR waits
/// for the inode lock that a rename holds). An operation on the node would then reach the file under another name than the
/// client gave. So for a while a request of a thread that has not looked the node up since gets ESTALE once, whereupon the
/// kernel walks the path again with LOOKUP_REVAL.
///
/// A thread that has looked the node up may still have walked by the old name since. Where the kernel could not drop that name
/// in time, the thread's walk is noted, and counts until the thread looks the node up once more.
///
/// Before Linux 6.14 a LOOKUP for a thread that came by the old name may carry the new one, if the kernel renames the dentry
/// meanwhile (`d_revalidate` was given no name of its own). A client that opens the old name while the earlier rename is
/// replayed then looks up the new name and goes on. On those kernels only a lookup that follows a refusal counts.
final class MovedNodes: Sendable {
  private struct Move {
    var time: ContinuousClock.Instant
    /// True if the node was given another name; false if it only has names that the kernel may still resolve to it wrongly.
    var isMoved: Bool
    /// The threads that have looked the node up since: they came by a current name of it.
    var threadsLookedUp: Set<pid_t> = []
    /// Whether the kernel renames the dentry, and may then look up the new name for a client that gave the old one.
    var isReplayed = false
    /// The threads that got ESTALE and walk the path again.
    var threadsRefused: Set<pid_t> = []
    /// The threads that have since walked a path on which the kernel may have resolved the old name.
    var threadsWalked: Set<pid_t> = []
  }

  /// Any request that began before the kernel dropped the old name arrives within this time: lookups that hold an inode lock
  /// take milliseconds, on a busy machine some hundred.
  private static let period = Duration.seconds(5)
  private static let limit = 4096
  private static let maximumThreads = 256

  private let moves = Guarded<[NodeID: Move]>([:])
  /// Lets requests skip the lock: each passes here, and almost always no node was moved.
  private let isNotEmpty = Atomic<Bool>(false)

  /// Whether the kernel looks up the name that a client gave, even if it renames the dentry meanwhile. (Linux 6.14)
  let areLookupNamesStable = Atomic<Bool>(true)

  /// Called before the node table follows the move.
  ///
  /// - Parameter isReplayed: whether a replay thread repeats the rename through the mount for the kernel.
  func noteMove(of node: NodeID, isReplayed: Bool = false) {
    let isReplayed = isReplayed && !areLookupNamesStable.load(ordering: .relaxed)
    change(node) {
      $0 = Move(time: $0.time, isMoved: true, isReplayed: isReplayed, threadsWalked: $0.threadsWalked)
    }
  }

  /// Records that a thread has walked a path on which the kernel may have resolved names that these nodes no longer have.
  func noteStaleWalk(to nodes: Set<NodeID>, by thread: pid_t) {
    for node in nodes {
      change(node) { move in
        move.threadsLookedUp.remove(thread)
        if move.threadsWalked.count < Self.maximumThreads { move.threadsWalked.insert(thread) }
      }
    }
  }

  private func change(_ node: NodeID, _ body: (inout Move) -> Void) {
    moves.withLock { moves in
      let now = ContinuousClock.now
      if moves.count >= Self.limit { moves = moves.filter { now - $0.value.time < Self.period } }
      guard moves.count < Self.limit || moves[node] != nil else { return }
      body(&moves[node, default: Move(time: now, isMoved: false)])
      moves[node]!.time = now
      isNotEmpty.store(true, ordering: .releasing)
    }
  }

  /// Records that a thread has looked up a name that leads to the node, or came to it by a file handle.
  func noteLookup(of node: NodeID, by thread: pid_t, isByHandle: Bool = false) {
    guard isNotEmpty.load(ordering: .acquiring) else { return }
    moves.withLock { moves in
      guard let index = moves.index(forKey: node) else { return }
      let wasRefused = moves.values[index].threadsRefused.remove(thread) != nil
      if moves.values[index].isReplayed, !isByHandle, !wasRefused { return }
      moves.values[index].threadsWalked.remove(thread)
      if moves.values[index].threadsLookedUp.count < Self.maximumThreads {
        moves.values[index].threadsLookedUp.insert(thread)
      }
    }
  }

  /// Whether a request for the node may come from a client that used a name the node no longer has.
  ///
  /// - Parameter readsOnly: whether the request only reads attributes, which is harmless unless the kernel goes on with the old
  ///   name.
  func mayHaveWalkedByOldName(_ node: NodeID, _ thread: pid_t, readsOnly: Bool = false) -> Bool {
    guard isNotEmpty.load(ordering: .acquiring) else { return false }
    return moves.withLock { moves in
      guard let move = moves[node] else { return false }
      if ContinuousClock.now - move.time < Self.period {
        return move.threadsWalked.contains(thread)
          || !readsOnly && move.isMoved && !move.threadsLookedUp.contains(thread)
      }
      moves[node] = nil
      if moves.isEmpty { isNotEmpty.store(false, ordering: .releasing) }
      return false
    }
  }

  /// Records that a thread gets ESTALE for the node: its next lookup of the node counts, unless another move is noted before.
  func noteRefusal(of node: NodeID, by thread: pid_t) {
    moves.withLock { moves in
      guard let move = moves[node], move.isReplayed, move.threadsRefused.count < Self.maximumThreads else {
        return
      }
      moves[node]!.threadsRefused.insert(thread)
    }
  }

  /// Called when the kernel has forgotten a node: its number may belong to another node from now on.
  func remove(_ node: NodeID) {
    guard isNotEmpty.load(ordering: .acquiring) else { return }
    moves.withLock { $0[node] = nil }
  }
}
