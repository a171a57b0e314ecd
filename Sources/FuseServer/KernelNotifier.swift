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
/// mount of their own that they have stopped). So each directory with stale names is a lane of its own, served by one of
/// several threads: a lane that waits for its lock keeps no other waiting.
///
/// FUSE_NOTIFY_INVAL_INODE takes no lock and is sent at once. That makes names that were invalidated in the background
/// invalid at once for every client: a path walk asks for the permission of each directory that it passes
/// (`fuse_permission`), and with the directory's attributes expired that is a GETATTR, the reply to which is deferred until
/// the lane is settled. A client that holds the directory's lock itself (mkdir(2) asks for the permission under it) would wait
/// for a lane that waits for the client: where the client's system call may be one of these, the reply is deferred for
/// milliseconds only.
///
/// Lock order: only `MovedNodes` is locked while the state is, and no message is sent and no reply given meanwhile.
final class KernelNotifier: KernelCache, @unchecked Sendable {
  private static let minimumThreads = 2
  /// A thread for each directory whose lock a client holds, up to this many.
  private static let maximumThreads = 64
  /// More stale names of one directory than this are dropped, and all of its names invalidated when its lock can be had.
  private static let maximumNames = 16_384
  /// How long, in milliseconds, a reply is deferred while a message waits for a lock that the client may hold itself: longer
  /// than a look-up holds it.
  private static let patience: UInt64 = 5
  /// How long, in milliseconds, replies wait for a lane at most. Where another user holds the lock, other clients wait that
  /// long once: longer than on a machine with thirty runnable threads for each processor a thread is late, shorter than a
  /// person notices.
  private static let limit: UInt64 = 80
  /// When an expired name is expired again. The reply to a revalidation, which takes no lock, may reach the kernel after the
  /// message and be believed.
  private static let second: UInt64 = 1000

  private struct Staleness {
    var mayBeDirectory: Bool
    /// Whether the name was expired a second ago, and nothing has been done to it since.
    var isRepeated = false
  }

  private struct Lane {
    var names: [Name: Staleness] = [:]
    /// Nodes whose attributes are to be expired once the kernel knows them: their look-up holds the lock.
    var nodes: Set<NodeID> = []
    /// Nodes that live on while the kernel may resolve a stale name to them.
    var moved: Set<NodeID> = []
    var areNamesLost = false
    /// When a message of the lane began to wait for the lock; nil while none does.
    var waitsSince: UInt64?
    /// When replies began to depend on the lane; nil where none does.
    var awaitedSince: UInt64?
    var deferred: [Deferred] = []
  }

  private struct Deferred {
    let begin: UInt64
    /// Whether the client may hold the lock that the lane waits for.
    let mayHoldLock: Bool
    let reply: @Sendable () -> Void
  }

  private struct State {
    var lanes: [NodeID: Lane] = [:]
    /// Lanes that no thread serves.
    var ready: [NodeID] = []
    /// Lanes with deferred replies.
    var deferring: Set<NodeID> = []
    var idleThreads = 0
    var repeats: [(when: UInt64, name: StaleName)] = []
    var hasEnded = false
  }

  private let session: OpaquePointer
  private let view: View
  private let keptContent: KeptContent
  private let state = Guarded(State())
  private let threads = ThreadGroup()
  private let work = Semaphore()
  private let clock = Semaphore()
  /// How many lanes replies may depend on, looked at with each reply about a directory.
  private let awaited = Atomic<Int>(0)

  init(session: OpaquePointer, view: View, keptContent: KeptContent) {
    self.session = session
    self.keptContent = keptContent
    self.view = view
  }

  // MARK: KernelCache

  func invalidate(_ names: [StaleName]) { add(names, isAwaited: false) }

  func invalidateBeforeNextWalk(_ names: [StaleName]) {
    add(names, isAwaited: true)
    for directory in Set(names.map(\.directory)) { _ = expireNow(directory) }
  }

  func expireAttributes(of node: NodeID, in directory: NodeID?) {
    keptContent.forget(node)
    guard !expireNow(node), let directory else { return }
    change(directory) { $0.nodes.insert(node) }
  }

  /// - Returns: false when the kernel does not know the node.
  private func expireNow(_ node: NodeID) -> Bool {
    if hasEnded { return false }
    // From -1 on is none of its content.
    return fuse_lowlevel_notify_inval_inode(session, node, -1, 0) != -ENOENT
  }

  private func add(_ names: [StaleName], isAwaited: Bool) {
    guard let first = names.first else { return }
    // Most changes concern one directory.
    if names.allSatisfy({ $0.directory == first.directory }) {
      return change(first.directory) { add(names, isAwaited, to: &$0) }
    }
    for (directory, names) in Dictionary(grouping: names, by: \.directory) {
      change(directory) { add(names, isAwaited, to: &$0) }
    }
  }

  private func add(_ names: [StaleName], _ isAwaited: Bool, to lane: inout Lane) {
    if isAwaited, lane.awaitedSince == nil {
      lane.awaitedSince = milliseconds()
      awaited.add(1, ordering: .releasing)
    }
    for stale in names {
      let mayHaveBeen = lane.names[stale.name]?.mayBeDirectory ?? false
      lane.names[stale.name] = Staleness(mayBeDirectory: stale.mayBeDirectory || mayHaveBeen)
      if let node = stale.node { lane.moved.insert(node) }
    }
    guard lane.names.count > Self.maximumNames else { return }
    lane.names = [:]
    lane.areNamesLost = true
  }

  private func change(_ directory: NodeID, _ body: (inout Lane) -> Void) {
    let (isReady, lacksThread) = state.withLock { state -> (Bool, Bool) in
      guard !state.hasEnded else { return (false, false) }
      let isNew = state.lanes[directory] == nil
      body(&state.lanes[directory, default: Lane()])
      guard isNew else { return (false, false) }
      state.ready.append(directory)
      return (true, state.ready.count > state.idleThreads && threads.count < Self.maximumThreads)
    }
    // Not by this thread: it may be a worker with the policy SCHED_IDLE, and so would the new one be until it first runs.
    if lacksThread { clock.post() }
    if isReady { work.post() }
  }

  // MARK: Replies that depend on what the kernel has dropped

  /// Whether a path walk through a directory may still meet a stale name: its attributes must not be cached.
  func isUnsettled(_ directory: NodeID) -> Bool {
    guard awaited.load(ordering: .acquiring) > 0 else { return false }
    return state.withLock { $0.lanes[directory]?.awaitedSince != nil }
  }

  /// Whether more names of a directory are stale than are remembered: no name in it may be cached.
  func hasLostNames(_ directory: NodeID) -> Bool {
    guard awaited.load(ordering: .acquiring) > 0 else { return false }
    return state.withLock { $0.lanes[directory]?.areNamesLost ?? false }
  }

  /// Defers a reply until the kernel has dropped a directory's stale names, or that takes too long.
  ///
  /// - Returns: false when there is nothing to wait for, and `reply` will not be called.
  func defers(
    untilSettled directory: NodeID, for client: pid_t, _ reply: @escaping @Sendable () -> Void
  ) -> Bool {
    guard awaited.load(ordering: .acquiring) > 0, isUnsettled(directory) else { return false }
    // Before the lock is taken: it reads a file.
    let mayHoldLock = dfs_may_hold_directory_lock(client)
    let (isDeferred, moved) = state.withLock { state -> (Bool, Set<NodeID>) in
      guard !state.hasEnded, let lane = state.lanes[directory], let since = lane.awaitedSince else {
        return (false, [])
      }
      let now = milliseconds()
      // A lane that waits longer than that is not waited for.
      guard now - (lane.waitsSince ?? since) < Self.limit else {
        state.lanes[directory]!.moved = []
        return (false, lane.moved)
      }
      state.lanes[directory]!.deferred.append(
        Deferred(begin: now, mayHoldLock: mayHoldLock, reply: reply))
      state.deferring.insert(directory)
      return (true, [])
    }
    // The walk may meet a stale name.
    for node in moved { view.noteStaleName(of: node) }
    if isDeferred { clock.post() }
    return isDeferred
  }

  // MARK: Threads

  func start() {
    for _ in 0..<Self.minimumThreads { threads.start { [self] in serve() } }
    threads.start { [self] in keepTime() }
  }

  /// Sends no message from now on. Called before the session's descriptor is closed, whose number may then be another file's.
  func stop() {
    state.withLock { $0.hasEnded = true }
    clock.post()
    for _ in 0..<threads.count { work.post() }
    // A thread that is about to send is in the kernel by then, which needs the number no more.
    threads.waitUntilEnded(milliseconds: 100)
    let left = state.withLock { state in
      defer { state.lanes = [:] }
      return state.lanes.values.flatMap(\.deferred)
    }
    for deferred in left { deferred.reply() }
  }

  /// Called when the mount is gone.
  func waitUntilEnded(milliseconds: Int) -> Bool { threads.waitUntilEnded(milliseconds: milliseconds) }

  private func serve() {
    while true {
      state.withLock { $0.idleThreads += 1 }
      work.wait()
      let directory = state.withLock { state -> NodeID? in
        state.idleThreads -= 1
        guard !state.hasEnded, !state.ready.isEmpty else { return nil }
        return state.ready.removeFirst()
      }
      if let directory { settle(directory) } else if hasEnded { return }
    }
  }

  private var hasEnded: Bool { state.withLock { $0.hasEnded } }

  private func settle(_ directory: NodeID) {
    while let (names, nodes, areNamesLost) = takeStale(directory) {
      if !nodes.isEmpty {
        // No file has this name: it waits for the lock, and with it for the look-ups that make the nodes known.
        expireOrInvalidate(".", in: directory, mayBeDirectory: false)
        for node in nodes { _ = expireNow(node) }
      }
      for (name, staleness) in names { drop(name, in: directory, staleness) }
      guard areNamesLost else { continue }
      // Not by the lane, which has no room for them.
      for stale in view.staleNames(inDirectory: directory) {
        drop(stale.name, in: directory, Staleness(mayBeDirectory: stale.mayBeDirectory))
      }
      _ = expireNow(directory)
    }
  }

  /// The stale names of a lane; nil when it is settled, and gone.
  private func takeStale(_ directory: NodeID) -> (
    names: [Name: Staleness], nodes: Set<NodeID>, areLost: Bool
  )? {
    let (taken, replies) = state.withLock {
      state -> ((names: [Name: Staleness], nodes: Set<NodeID>, areLost: Bool)?, [Deferred]) in
      guard var lane = state.lanes[directory] else { return (nil, []) }
      if state.hasEnded || lane.names.isEmpty && lane.nodes.isEmpty && !lane.areNamesLost {
        state.lanes[directory] = nil
        state.deferring.remove(directory)
        if lane.awaitedSince != nil { awaited.subtract(1, ordering: .releasing) }
        return (nil, lane.deferred)
      }
      // A lane that others add to all the time makes progress: each batch has its own time.
      lane.waitsSince = milliseconds()
      defer { state.lanes[directory] = lane }
      defer {
        lane.names = [:]
        lane.nodes = []
        lane.areNamesLost = false
      }
      return ((lane.names, lane.nodes, lane.areNamesLost), [])
    }
    for deferred in replies { deferred.reply() }
    return taken
  }

  /// Has the kernel drop a dentry, or look it up again if it may be a directory's.
  private func drop(_ name: Name, in directory: NodeID, _ staleness: Staleness) {
    let isKnown = expireOrInvalidate(name, in: directory, mayBeDirectory: staleness.mayBeDirectory)
    guard isKnown, staleness.mayBeDirectory, !staleness.isRepeated else { return }
    let stale = StaleName(name, in: directory, mayBeDirectory: true)
    let isFirst = state.withLock { state in
      guard state.repeats.count < Self.maximumNames else { return false }
      state.repeats.append((milliseconds() + Self.second, stale))
      return state.repeats.count == 1
    }
    if isFirst { clock.post() }
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

  // MARK: Time

  private func keepTime() {
    while true {
      let (due, repeats, wait, hasEnded) = state.withLock { takeDue(&$0) }
      for deferred in due { deferred.reply() }
      if hasEnded { return }
      startMissingThreads()
      for stale in repeats {
        change(stale.directory) { lane in
          if lane.names[stale.name] == nil {
            lane.names[stale.name] = Staleness(mayBeDirectory: true, isRepeated: true)
          }
        }
      }
      if let wait { clock.wait(milliseconds: wait) } else { clock.wait() }
    }
  }

  private func startMissingThreads() {
    let missing = state.withLock { $0.ready.count - $0.idleThreads }
    guard missing > 0 else { return }
    for _ in 0..<max(0, min(missing, Self.maximumThreads - threads.count)) {
      threads.start { [self] in serve() }
    }
  }

  private func takeDue(
    _ state: inout State
  ) -> (due: [Deferred], repeats: [StaleName], wait: Int?, hasEnded: Bool) {
    let now = milliseconds()
    var due: [Deferred] = []
    var next: UInt64?
    func wait(until time: UInt64) { next = min(next ?? time, time) }
    for directory in state.deferring {
      guard let lane = state.lanes[directory] else { continue }
      let isBlocked = lane.waitsSince.map { now - $0 >= Self.patience } ?? false
      let (over, left) = Self.split(lane.deferred) {
        now - $0.begin >= Self.limit || isBlocked && $0.mayHoldLock && now - $0.begin >= Self.patience
      }
      if over.isEmpty { continue }
      due += over
      state.lanes[directory]!.deferred = left
      if left.isEmpty { state.deferring.remove(directory) }
      // From now on a walk may meet a stale name. Once for each node: a client that has looked it up since goes on.
      for node in lane.moved { view.noteStaleName(of: node) }
      state.lanes[directory]!.moved = []
    }
    if !state.deferring.isEmpty { wait(until: now + 1) }
    let repeats = state.repeats.prefix { $0.when <= now }.map(\.name)
    state.repeats.removeFirst(repeats.count)
    if let first = state.repeats.first { wait(until: first.when) }
    return (due, repeats, next.map { Int(max(1, $0 > now ? $0 - now : 1)) }, state.hasEnded)
  }

  private static func split(_ all: [Deferred], _ isOver: (Deferred) -> Bool) -> ([Deferred], [Deferred]) {
    (all.filter(isOver), all.filter { !isOver($0) })
  }
}

/// Of the monotonic clock.
private func milliseconds() -> UInt64 {
  var now = timespec()
  clock_gettime(CLOCK_MONOTONIC, &now)
  return UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
}
