import DisplayNames
import Glibc
import View

/// The invalidations that the kernel has yet to receive: the stale names of each directory, and the replies that are deferred
/// until they are sent.
///
/// This type only keeps state and decides; ``KernelNotifier`` sends the messages and the replies. Times are milliseconds of the
/// monotonic clock.
struct InvalidationQueues {
  typealias Reply = @Sendable () -> Void

  /// The bound for the names of all directories together, about 10 MB. Beyond it, a directory that has `guaranteedNames` names or
  /// more gives up its list, and all of its names are invalidated when a thread takes its batch.
  static let maximumNames = 65_536
  /// How many names a directory may always queue, however many names other directories have queued.
  static let guaranteedNames = 1024
  /// How long a reply is deferred while a message waits for a lock that the client itself may hold, in milliseconds. Longer than
  /// a LOOKUP holds the lock.
  static let lockHolderWaitLimit: Int64 = 5
  /// How long a reply is deferred while a message waits for a lock, which another user may hold for ever, in milliseconds.
  /// Shorter than a person notices.
  static let lockWaitLimit: Int64 = 80
  /// The longest deferral while no message waits for a lock yet, because the machine is busy, in milliseconds.
  static let maximumDeferral: Int64 = 2000
  /// The delay after which an expired name is expired once more, in milliseconds. Revalidation takes no lock, so its reply may
  /// reach the kernel after the first message and be believed.
  static let repeatDelay: Int64 = 1000

  struct Staleness: Equatable {
    var mayBeDirectory: Bool
    /// Whether this repeats an earlier expiry, and the name has not been queued anew since.
    var isRepeated = false
  }

  /// The messages that a thread sends for one directory. Sending waits for the directory's lock.
  struct Batch {
    var names: [Name: Staleness] = [:]
    /// Nodes whose attributes are to be expired once the kernel knows the nodes: the LOOKUP of a node holds the lock until then.
    var nodes: Set<NodeID> = []
    /// Whether all names of the directory are to be invalidated, because too many are stale to be listed.
    var hasOverflowed = false

    var isEmpty: Bool { names.isEmpty && nodes.isEmpty && !hasOverflowed }
  }

  private struct Queue {
    var batch = Batch()
    /// Nodes that a stale name led to and that live on under other names. The kernel may still resolve a stale name to them.
    var moved: Set<NodeID> = []
    /// How many batches threads have taken.
    var taken = 0
    /// The earliest time at which the messages of the last batch began to wait for the lock; nil before the first batch.
    var waitsSince: Int64?
    /// When replies began to depend on the queue; nil while none does.
    var awaitedSince: Int64?
    var deferred: [Deferred] = []
  }

  private struct Deferred {
    let begin: Int64
    /// The number of the batch that must be sent before the reply. Names that are queued later concern later path walks.
    let batch: Int
    /// Whether the client may hold the lock that the message waits for.
    let mayHoldLock: Bool
    let client: pid_t
    let reply: Reply

    func isDue(_ now: Int64, waitsSince: Int64?) -> Bool {
      let age = now - begin
      if age >= InvalidationQueues.maximumDeferral { return true }
      guard let waitsSince else { return false }
      let limit = mayHoldLock ? InvalidationQueues.lockHolderWaitLimit : InvalidationQueues.lockWaitLimit
      return min(age, now - waitsSince) >= limit
    }
  }

  private var queues: [NodeID: Queue] = [:]
  /// Directories with a queue that no thread serves yet.
  private var ready = FirstInFirstOut<NodeID>()
  /// Directories with deferred replies.
  private var deferring: Set<NodeID> = []
  private var repeats: [(when: Int64, name: StaleName)] = []
  private var names = 0
  /// How many directories have replies that may depend on their queues.
  private(set) var awaited = 0
  /// Whether any directory has given up its list of names since the queues were last empty.
  private(set) var hasAnyOverflowed = false

  // MARK: Adding

  mutating func add(_ stale: some Sequence<StaleName>, in directory: NodeID, isAwaited: Bool, now: Int64) {
    change(directory) { queue, names in
      if isAwaited, queue.awaitedSince == nil { queue.awaitedSince = now }
      for stale in stale {
        if let node = stale.node { queue.moved.insert(node) }
        let old = queue.batch.names[stale.name]
        if old == nil, names >= Self.maximumNames, queue.batch.names.count >= Self.guaranteedNames {
          queue.batch.hasOverflowed = true
        }
        if queue.batch.hasOverflowed { continue }
        if old == nil { names += 1 }
        queue.batch.names[stale.name] = Staleness(
          mayBeDirectory: stale.mayBeDirectory || old?.mayBeDirectory ?? false)
      }
      guard queue.batch.hasOverflowed else { return }
      names -= queue.batch.names.count
      queue.batch.names = [:]
    }
    if hasOverflowed(directory) { hasAnyOverflowed = true }
  }

  mutating func add(node: NodeID, in directory: NodeID) {
    change(directory) { queue, _ in queue.batch.nodes.insert(node) }
  }

  private mutating func change(_ directory: NodeID, _ body: (inout Queue, inout Int) -> Void) {
    let count = queues.count
    let wasAwaited = mayHoldStaleNames(directory)
    body(&queues[directory, default: Queue()], &names)
    if !wasAwaited, mayHoldStaleNames(directory) { awaited += 1 }
    if queues.count > count { ready.append(directory) }
  }

  // MARK: Serving

  var readyCount: Int { ready.count }

  /// Returns a directory that the calling thread alone serves, until `takeBatch` returns nil for it.
  mutating func takeReady() -> NodeID? { ready.isEmpty ? nil : ready.removeFirst() }

  /// Takes the next batch of a directory. The caller has sent the previous batch completely.
  ///
  /// - Returns: the batch, nil when the directory has no stale name left; and the replies that were deferred until the batches
  ///   taken so far were sent.
  mutating func takeBatch(of directory: NodeID, now: Int64) -> (batch: Batch?, replies: [Reply]) {
    guard var queue = queues[directory] else { return (nil, []) }
    let (ready, others) = queue.deferred.partitioned { $0.batch <= queue.taken }
    let replies = ready.map(\.reply)
    if others.isEmpty { deferring.remove(directory) }
    if queue.batch.isEmpty {
      queues[directory] = nil
      if queues.isEmpty { hasAnyOverflowed = false }
      if queue.awaitedSince != nil { awaited -= 1 }
      return (nil, replies)
    }
    queue.deferred = others
    queue.taken += 1
    queue.waitsSince = now
    let batch = queue.batch
    names -= batch.names.count
    queue.batch = Batch()
    queues[directory] = queue
    return (batch, replies)
  }

  /// Schedules a second expiry of a name that was expired.
  ///
  /// - Returns: whether the timer must be woken.
  mutating func addRepeat(of name: StaleName, now: Int64) -> Bool {
    guard repeats.count < Self.maximumNames else { return false }
    repeats.append((now + Self.repeatDelay, name))
    return repeats.count == 1
  }

  /// Drops everything.
  ///
  /// - Returns: the replies that are still deferred.
  mutating func removeAll() -> [Reply] {
    defer { self = InvalidationQueues() }
    return queues.values.flatMap { $0.deferred.map(\.reply) }
  }

  // MARK: Replies

  /// Whether a path walk through a directory may still meet a stale name.
  func mayHoldStaleNames(_ directory: NodeID) -> Bool { queues[directory]?.awaitedSince != nil }

  /// Whether more names of a directory are stale than the queue lists.
  func hasOverflowed(_ directory: NodeID) -> Bool { queues[directory]?.batch.hasOverflowed ?? false }

  /// Keeps a reply until a directory has no stale name left.
  ///
  /// - Returns: whether the reply was kept; if not, the nodes that a stale name may still lead to.
  mutating func deferReply(
    untilNamesDropped directory: NodeID, for client: pid_t, mayHoldLock: Bool, now: Int64,
    _ reply: @escaping Reply
  ) -> (isDeferred: Bool, moved: Set<NodeID>) {
    guard let queue = queues[directory], let since = queue.awaitedSince else { return (false, []) }
    // Do not defer further replies behind a queue that has been blocked for longer than this.
    guard queue.waitsSince.map({ now - $0 < Self.lockWaitLimit }) ?? (now - since < Self.maximumDeferral)
    else {
      return (false, queue.moved)
    }
    let last = queue.batch.isEmpty ? queue.taken : queue.taken + 1
    queues[directory]!.deferred.append(
      Deferred(begin: now, batch: last, mayHoldLock: mayHoldLock, client: client, reply: reply))
    deferring.insert(directory)
    return (true, [])
  }

  struct Due {
    var replies: [Reply] = []
    /// The clients of these replies that may meet a stale name, and the nodes that it may lead to.
    var walks: [(client: pid_t, nodes: Set<NodeID>)] = []
    /// The next time at which something is due; nil if nothing is.
    var next: Int64?
  }

  /// Takes the replies that have been deferred for long enough, and queues the names that are to be expired again.
  mutating func takeDue(now: Int64) -> Due {
    var due = Due()
    for directory in deferring {
      guard var queue = queues[directory] else { continue }
      let split = queue.deferred.partitioned { $0.isDue(now, waitsSince: queue.waitsSince) }
      if split.others.isEmpty { deferring.remove(directory) }
      if split.matching.isEmpty { continue }
      due.replies += split.matching.map(\.reply)
      if !queue.moved.isEmpty { due.walks += split.matching.map { ($0.client, queue.moved) } }
      queue.deferred = split.others
      queues[directory] = queue
    }
    if !deferring.isEmpty { due.next = now + 1 }
    let over = repeats.prefix { $0.when <= now }
    repeats.removeFirst(over.count)
    for (_, stale) in over where queues[stale.directory]?.batch.names[stale.name] == nil {
      add([stale], in: stale.directory, isAwaited: false, now: now)
      queues[stale.directory]!.batch.names[stale.name]?.isRepeated = true
    }
    if let first = repeats.first { due.next = min(due.next ?? first.when, first.when) }
    return due
  }
}

extension Array {
  fileprivate func partitioned(
    by matches: (Element) -> Bool
  ) -> (matching: [Element], others: [Element]) {
    (filter(matches), filter { !matches($0) })
  }
}
