import BackingTree
import CFuse
import CLinux
import DisplayNames
import Glibc
import Synchronization
import View

/// Sends notify messages to the kernel, which invalidate its cached dentries and attributes.
///
/// FUSE_NOTIFY_INVAL_ENTRY takes the inode lock of the directory. A request in progress may hold that lock until its reply, and
/// any user who can list the directory can hold it for as long as they like (getdents64(2) into a page of a FUSE mount of their
/// own that they have stopped). So each directory with stale names has its own queue, and several threads serve the queues: a
/// message that waits for its lock does not delay messages for other directories.
///
/// FUSE_NOTIFY_INVAL_INODE takes no lock and is sent at once. It makes the queued names invalid at once for every client: a
/// path walk checks the permission of each directory on the path (`fuse_permission`). With expired attributes that check sends
/// a GETATTR, and the reply is deferred until the messages queued so far have been sent. A client that holds the directory's lock
/// itself (mkdir(2) checks the permission under it) would deadlock: it would wait for a message that waits for the client.
/// Where the client's system call may be one of these, the reply is deferred for milliseconds only.
///
/// Lock order: `queues` is innermost. While it is held, no other lock is taken, no message is sent and no reply is sent.
final class KernelNotifier: KernelCacheInvalidator, @unchecked Sendable {
  private let session: OpaquePointer
  private let view: View
  private let pageCachePolicy: PageCachePolicy
  private let queues = Guarded(InvalidationQueues())
  private let threads = NotifierPool()
  /// Threads for replies, so that a reply does not queue behind threads that wait for directory locks.
  private let repliers = NotifierPool()
  private let ended = Atomic<Bool>(false)
  /// How many directories have replies that may depend on their queues. Read for each reply about a directory.
  private let awaited = Atomic<Int>(0)
  /// Whether any directory has given up its list of stale names. Read for each reply with an entry.
  private let hasAnyOverflowed = Atomic<Bool>(false)

  init(session: OpaquePointer, view: View, pageCachePolicy: PageCachePolicy) {
    self.session = session
    self.view = view
    self.pageCachePolicy = pageCachePolicy
  }

  private var hasEnded: Bool { ended.load(ordering: .acquiring) }

  // MARK: KernelCacheInvalidator

  func invalidate(_ names: [StaleName]) { add(names, isAwaited: false) }

  func invalidateBeforeNextWalk(_ names: [StaleName]) {
    add(names, isAwaited: true)
    for directory in Set(names.map(\.directory)) { _ = expireAttributesNow(directory) }
  }

  func expireAttributes(of node: NodeID, in directory: NodeID?) {
    pageCachePolicy.remove(node)
    guard !expireAttributesNow(node), let directory else { return }
    change { $0.add(node: node, in: directory) }
  }

  /// - Returns: false when the kernel does not know the node.
  private func expireAttributesNow(_ node: NodeID) -> Bool {
    let nodeid = view.nodes.nodeid(of: node)
    if hasEnded || nodeid == 0 { return false }
    // A negative offset invalidates the attributes only, no content.
    return fuse_lowlevel_notify_inval_inode(session, nodeid, -1, 0) != -ENOENT
  }

  /// Drops the page cache of a node, and its attributes. Waits for reads and writes of cached pages, which workers serve: a worker
  /// must not call it.
  func dropContent(of node: NodeID) {
    let nodeid = view.nodes.nodeid(of: node)
    if hasEnded || nodeid == 0 { return }
    pageCachePolicy.remove(node)
    _ = fuse_lowlevel_notify_inval_inode(session, nodeid, 0, 0)
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

  /// Changes the queues, and has threads serve the directories that became ready.
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
    hasAnyOverflowed.store(queues.hasAnyOverflowed, ordering: .releasing)
  }

  // MARK: Replies that depend on invalidations

  /// Whether a path walk through a directory may still meet a stale name. If so, the directory's attributes must not be cached.
  func mayHoldStaleNames(_ directory: NodeID) -> Bool {
    guard awaited.load(ordering: .acquiring) > 0 else { return false }
    return queues.withLock { $0.mayHoldStaleNames(directory) }
  }

  /// Whether more names of a directory are stale than its queue lists. If so, no name in it may be cached.
  func hasOverflowed(_ directory: NodeID) -> Bool {
    guard hasAnyOverflowed.load(ordering: .acquiring) else { return false }
    return queues.withLock { $0.hasOverflowed(directory) }
  }

  /// Defers a reply until the kernel has dropped a directory's stale names, or until a time limit.
  ///
  /// - Returns: false when there is nothing to wait for; `reply` is not called then.
  func deferReply(
    untilNamesDropped directory: NodeID, for client: pid_t, _ reply: @escaping @Sendable () -> Void
  ) -> Bool {
    guard mayHoldStaleNames(directory), !hasEnded else { return false }
    // Called before the lock is taken, because it reads a file (`/proc/TID/syscall`).
    let mayHoldLock = dfs_may_hold_directory_lock(client)
    let now = milliseconds()
    let (isDeferred, moved) = queues.withLock {
      $0.deferReply(untilNamesDropped: directory, for: client, mayHoldLock: mayHoldLock, now: now, reply)
    }
    // The path walk may meet a stale name.
    view.noteStaleWalk(to: moved, by: client)
    guard isDeferred else { return false }
    if hasEnded { sendRemainingReplies() } else { threads.wakeTimer() }
    return true
  }

  // MARK: Threads

  func start() {
    repliers.start { nil }
    threads.start { [self] in sendDueReplies() }
  }

  /// Sends no message from now on. Called before the session's descriptor is closed: another file may then get its number.
  func stop() {
    ended.store(true, ordering: .sequentiallyConsistent)
    // A thread that was about to send has entered the kernel by then, which no longer needs the descriptor's number.
    for job in threads.stop(milliseconds: 100) + repliers.stop(milliseconds: 0) { job() }
    sendRemainingReplies()
  }

  private func sendRemainingReplies() {
    for reply in queues.withLock({ $0.removeAll() }) { reply() }
  }

  /// Called after the mount is gone.
  func waitUntilEnded(milliseconds: Int) -> Bool {
    let haveEnded = [threads, repliers].map { $0.waitUntilEnded(milliseconds: milliseconds) }
    return haveEnded.allSatisfy { $0 }
  }

  /// - Returns: the milliseconds until the next call; nil if nothing is scheduled.
  private func sendDueReplies() -> Int? {
    let now = milliseconds()
    var due = InvalidationQueues.Due()
    change { due = $0.takeDue(now: now) }
    for walk in due.walks { view.noteStaleWalk(to: walk.nodes, by: walk.client) }
    // On other threads: a reply reads attributes, which may block.
    for reply in due.replies { repliers.add(reply) }
    return due.next.map { Int(max(1, $0 > now ? $0 - now : 1)) }
  }

  private func serve() {
    guard let directory = queues.withLock({ $0.takeReady() }) else { return }
    while let batch = takeBatch(of: directory) { send(batch, in: directory) }
  }

  /// Takes the next batch of a directory, and sends the replies that waited for the previous one; nil when the directory is
  /// without stale names.
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
      // No file has the name `.`: the message only waits for the directory's lock, and thus for the LOOKUPs that make the nodes
      // known.
      expireOrInvalidate(".", in: directory, mayBeDirectory: false)
      for node in batch.nodes { _ = expireAttributesNow(node) }
    }
    for (name, staleness) in batch.names { dropDentry(name, in: directory, staleness) }
    guard batch.hasOverflowed else { return }
    // Sent directly: the queue has no room for these names.
    for stale in view.staleNames(inDirectory: directory) {
      dropDentry(stale.name, in: directory, .init(mayBeDirectory: stale.mayBeDirectory))
    }
    _ = expireAttributesNow(directory)
  }

  /// Invalidates a dentry, or expires it if it may be a directory's, so that the kernel looks it up again.
  private func dropDentry(_ name: Name, in directory: NodeID, _ staleness: InvalidationQueues.Staleness) {
    // The message may be older than a look-up that has found a directory of that name.
    let mayBeDirectory = staleness.mayBeDirectory || view.hasDirectoryNode(name, in: directory)
    let isKnown = expireOrInvalidate(name, in: directory, mayBeDirectory: mayBeDirectory)
    guard isKnown, mayBeDirectory, !staleness.isRepeated else { return }
    let stale = StaleName(name, in: directory, mayBeDirectory: true)
    if queues.withLock({ $0.addRepeat(of: stale, now: milliseconds()) }) { threads.wakeTimer() }
  }

  /// - Returns: whether the kernel had a dentry of that name.
  @discardableResult
  private func expireOrInvalidate(_ name: Name, in directory: NodeID, mayBeDirectory: Bool) -> Bool {
    let parent = view.nodes.nodeid(of: directory)
    if hasEnded || parent == 0 { return false }
    var isExpired = mayBeDirectory
    if mayBeDirectory, !dfs_init_capable(UInt64(DFS_HAS_EXPIRE_ONLY)) {
      // Before Linux 6.2, a name can only be invalidated. A name that still leads to its directory is left to its entry
      // timeout.
      if view.leadsToKnownDirectory(name, in: directory) { return false }
      isExpired = false
    }
    return name.bytes.withCName {
      dfs_notify_entry(session, parent, $0, UInt32(name.bytes.count), isExpired ? 0 : 1)
    } == 0
  }

  /// Expires a name at once. Waits for the directory's lock.
  func expireDentryNow(_ name: Name, in directory: NodeID) {
    expireOrInvalidate(name, in: directory, mayBeDirectory: true)
  }
}

/// The time of the monotonic clock.
private func milliseconds() -> Int64 {
  var now = timespec()
  clock_gettime(CLOCK_MONOTONIC, &now)
  return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}
