import BackingTree
import CFuse
import DisplayNames
import Glibc
import Synchronization
import View

/// Sends the kernel's notify messages: what it must not answer from its caches any more.
///
/// FUSE_NOTIFY_INVAL_ENTRY takes the inode lock of the directory. The request that is being served may hold that lock until
/// its reply, and any user who can list a directory can hold it for as long as they like (getdents64(2) into a page of a FUSE
/// mount of their own that they have stopped). So each directory with stale names has a queue of its own, served by one of
/// several threads: a message that waits for its lock keeps no other waiting.
///
/// FUSE_NOTIFY_INVAL_INODE takes no lock and is sent at once. That makes names that were invalidated in the background
/// invalid at once for every client: a path walk asks for the permission of each directory that it passes
/// (`fuse_permission`), and with the directory's attributes expired that is a GETATTR, the reply to which is deferred until
/// the queue is empty. A client that holds the directory's lock itself (mkdir(2) asks for the permission under it) would wait
/// for a message that waits for the client: where the client's system call may be one of these, the reply is deferred for
/// milliseconds only.
///
/// Lock order: nothing is locked, no message sent and no reply given while the queues are locked.
final class KernelNotifier: KernelCache, @unchecked Sendable {
  private let session: OpaquePointer
  private let view: View
  private let keptContent: KeptContent
  private let queues = Guarded(InvalidationQueues())
  private let threads = NotifierPool()
  /// For replies, which must not wait for those that wait for locks.
  private let repliers = NotifierPool()
  private let ended = Atomic<Bool>(false)
  /// How many directories replies may depend on, looked at with each reply about a directory.
  private let awaited = Atomic<Int>(0)
  /// Whether names of any directory are lost, looked at with each name that is looked up.
  private let areAnyLost = Atomic<Bool>(false)

  init(session: OpaquePointer, view: View, keptContent: KeptContent) {
    self.session = session
    self.view = view
    self.keptContent = keptContent
  }

  private var hasEnded: Bool { ended.load(ordering: .acquiring) }

  // MARK: KernelCache

  func invalidate(_ names: [StaleName]) { add(names, isAwaited: false) }

  func invalidateBeforeNextWalk(_ names: [StaleName]) {
    add(names, isAwaited: true)
    for directory in Set(names.map(\.directory)) { _ = expireNow(directory) }
  }

  func expireAttributes(of node: NodeID, in directory: NodeID?) {
    keptContent.forget(node)
    guard !expireNow(node), let directory else { return }
    change { $0.add(node: node, in: directory) }
  }

  /// - Returns: false when the kernel does not know the node.
  private func expireNow(_ node: NodeID) -> Bool {
    if hasEnded { return false }
    // From -1 on is none of its content.
    return fuse_lowlevel_notify_inval_inode(session, node, -1, 0) != -ENOENT
  }

  private func add(_ names: [StaleName], isAwaited: Bool) {
    guard let first = names.first else { return }
    let now = milliseconds()
    change { queues in
      // Most changes concern one directory.
      if names.allSatisfy({ $0.directory == first.directory }) {
        return queues.add(names, in: first.directory, isAwaited: isAwaited, now: now)
      }
      for (directory, names) in Dictionary(grouping: names, by: \.directory) {
        queues.add(names, in: directory, isAwaited: isAwaited, now: now)
      }
    }
  }

  /// Changes the queues, and has threads serve what became ready.
  private func change(_ body: (inout InvalidationQueues) -> Void) {
    if hasEnded { return }
    let added = queues.withLock { queues -> Int in
      let before = queues.readyCount
      body(&queues)
      publish(queues)
      return queues.readyCount - before
    }
    for _ in 0..<added { threads.add { [self] in serve() } }
  }

  private func publish(_ queues: InvalidationQueues) {
    awaited.store(queues.awaited, ordering: .releasing)
    areAnyLost.store(queues.areAnyLost, ordering: .releasing)
  }

  // MARK: Replies that depend on what the kernel has dropped

  /// Whether a path walk through a directory may still meet a stale name: its attributes must not be cached.
  func isUnsettled(_ directory: NodeID) -> Bool {
    guard awaited.load(ordering: .acquiring) > 0 else { return false }
    return queues.withLock { $0.isUnsettled(directory) }
  }

  /// Whether more names of a directory are stale than are remembered: no name in it may be cached.
  func hasLostNames(_ directory: NodeID) -> Bool {
    guard areAnyLost.load(ordering: .acquiring) else { return false }
    return queues.withLock { $0.hasLostNames(directory) }
  }

  /// Defers a reply until the kernel has dropped a directory's stale names, or that takes too long.
  ///
  /// - Returns: false when there is nothing to wait for, and `reply` will not be called.
  func defers(
    untilSettled directory: NodeID, for client: pid_t, _ reply: @escaping @Sendable () -> Void
  ) -> Bool {
    guard isUnsettled(directory), !hasEnded else { return false }
    // Before the lock is taken: it reads a file.
    let mayHoldLock = dfs_may_hold_directory_lock(client)
    let now = milliseconds()
    let (isDeferred, moved) = queues.withLock {
      $0.deferReply(untilSettled: directory, for: client, mayHoldLock: mayHoldLock, now: now, reply)
    }
    // The walk may meet a stale name.
    view.noteStaleWalk(to: moved, by: client)
    guard isDeferred else { return false }
    if hasEnded { giveLeftReplies() } else { threads.wakeTimer() }
    return true
  }

  // MARK: Threads

  func start() {
    repliers.start { nil }
    threads.start { [self] in giveDueReplies() }
  }

  /// Sends no message from now on. Called before the session's descriptor is closed, whose number may then be another file's.
  func stop() {
    ended.store(true, ordering: .sequentiallyConsistent)
    // A thread that is about to send is in the kernel by then, which needs the number no more.
    for job in threads.stop(milliseconds: 100) + repliers.stop(milliseconds: 0) { job() }
    giveLeftReplies()
  }

  private func giveLeftReplies() {
    for reply in queues.withLock({ $0.removeAll() }) { reply() }
  }

  /// Called when the mount is gone.
  func waitUntilEnded(milliseconds: Int) -> Bool {
    let haveEnded = [threads, repliers].map { $0.waitUntilEnded(milliseconds: milliseconds) }
    return haveEnded.allSatisfy { $0 }
  }

  /// - Returns: the time until the next call.
  private func giveDueReplies() -> Int? {
    let now = milliseconds()
    var due = InvalidationQueues.Due()
    change { due = $0.takeDue(now: now) }
    for walk in due.walks { view.noteStaleWalk(to: walk.nodes, by: walk.client) }
    // By other threads: a reply reads attributes, for which it may wait.
    for reply in due.replies { repliers.add(reply) }
    return due.next.map { Int(max(1, $0 > now ? $0 - now : 1)) }
  }

  private func serve() {
    guard let directory = queues.withLock({ $0.takeReady() }) else { return }
    while let batch = takeBatch(of: directory) { send(batch, in: directory) }
  }

  /// What is to be sent for a directory; nil when it is settled.
  private func takeBatch(of directory: NodeID) -> InvalidationQueues.Batch? {
    if hasEnded { return nil }
    let (batch, replies) = queues.withLock { queues in
      let taken = queues.takeBatch(of: directory, now: milliseconds())
      publish(queues)
      return taken
    }
    for reply in replies { reply() }
    return batch
  }

  // MARK: Messages

  private func send(_ batch: InvalidationQueues.Batch, in directory: NodeID) {
    if !batch.nodes.isEmpty {
      // No file has this name: it waits for the lock, and with it for the look-ups that make the nodes known.
      expireOrInvalidate(".", in: directory, mayBeDirectory: false)
      for node in batch.nodes { _ = expireNow(node) }
    }
    for (name, staleness) in batch.names { drop(name, in: directory, staleness) }
    guard batch.areNamesLost else { return }
    // Not by the queue, which has no room for them.
    for stale in view.staleNames(inDirectory: directory) {
      drop(stale.name, in: directory, .init(mayBeDirectory: stale.mayBeDirectory))
    }
    _ = expireNow(directory)
  }

  /// Has the kernel drop a dentry, or look it up again if it may be a directory's.
  private func drop(_ name: Name, in directory: NodeID, _ staleness: InvalidationQueues.Staleness) {
    let isKnown = expireOrInvalidate(name, in: directory, mayBeDirectory: staleness.mayBeDirectory)
    guard isKnown, staleness.mayBeDirectory, !staleness.isRepeated else { return }
    let stale = StaleName(name, in: directory, mayBeDirectory: true)
    if queues.withLock({ $0.addRepeat(of: stale, now: milliseconds()) }) { threads.wakeTimer() }
  }

  /// - Returns: whether the kernel knew the name.
  @discardableResult
  private func expireOrInvalidate(_ name: Name, in directory: NodeID, mayBeDirectory: Bool) -> Bool {
    if hasEnded { return false }
    var isExpired = mayBeDirectory
    if mayBeDirectory, !dfs_init_offers(UInt64(DFS_HAS_EXPIRE_ONLY)) {
      // Before Linux 6.2 a name can only be invalidated. One that still leads to its directory is left to its timeout.
      if view.leadsToKnownDirectory(name, in: directory) { return false }
      isExpired = false
    }
    return name.bytes.withCName {
      dfs_notify_entry(session, directory, $0, UInt32(name.bytes.count), isExpired ? 0 : 1)
    } == 0
  }

  /// Has a name looked up again, at once. Waits for the directory's lock.
  func expireNow(_ name: Name, in directory: NodeID) {
    expireOrInvalidate(name, in: directory, mayBeDirectory: true)
  }
}

/// Of the monotonic clock.
private func milliseconds() -> Int64 {
  var now = timespec()
  clock_gettime(CLOCK_MONOTONIC, &now)
  return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}
