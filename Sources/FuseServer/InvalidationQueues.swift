import DisplayNames
import Glibc
import View

/// What the kernel is still to drop: the stale names of each directory, and the replies that are deferred until it has.
///
/// Only decides and remembers; ``KernelNotifier`` sends the messages and gives the replies. Times are milliseconds of the
/// monotonic clock.
struct InvalidationQueues {
  typealias Reply = @Sendable () -> Void

  /// Of all directories, about 10 MB. Beyond it the names of a directory that gets more than its share are not remembered one by
  /// one: all of its names are invalidated when its turn comes.
  static let maximumNames = 65_536
  /// What is left to each directory, whatever others have.
  static let share = 1024
  /// How long a reply is deferred while a message waits for a lock that the client may hold itself: longer than a look-up holds
  /// it.
  static let patience: Int64 = 5
  /// How long replies are deferred while a message waits for a lock, which another user may hold for ever: shorter than a person
  /// notices.
  static let limit: Int64 = 80
  /// How long they are deferred at most where no message waits for a lock yet, as the machine is busy.
  static let longest: Int64 = 2000
  /// When an expired name is expired again. The reply to a revalidation, which takes no lock, may reach the kernel after the
  /// message and be believed.
  static let untilRepeat: Int64 = 1000

  struct Staleness: Equatable {
    var mayBeDirectory: Bool
    /// Whether the name was expired a while ago, and nothing has been done to it since.
    var isRepeated = false
  }

  /// What a thread sends for one directory, waiting for the directory's lock.
  struct Batch {
    var names: [Name: Staleness] = [:]
    /// The attributes of these nodes are to be expired once the kernel knows the nodes: their look-up holds the lock.
    var nodes: Set<NodeID> = []
    /// Whether all names of the directory are to be invalidated.
    var areNamesLost = false

    var isEmpty: Bool { names.isEmpty && nodes.isEmpty && !areNamesLost }
  }

  private struct Queue {
    var batch = Batch()
    /// Nodes that live on while the kernel may resolve a stale name to them.
    var moved: Set<NodeID> = []
    /// How many batches threads have taken.
    var taken = 0
    /// When the messages of the last one may have begun to wait for the lock; nil where none was taken.
    var waitsSince: Int64?
    /// When replies began to depend on the queue; nil where none does.
    var awaitedSince: Int64?
    var deferred: [Deferred] = []
  }

  private struct Deferred {
    let begin: Int64
    /// The number of the batch that is to be done before the reply is given. What was added since concerns later walks.
    let batch: Int
    /// Whether the client may hold the lock that the message waits for.
    let mayHoldLock: Bool
    let client: pid_t
    let reply: Reply

    func isDue(_ now: Int64, waitsSince: Int64?) -> Bool {
      let age = now - begin
      if age >= InvalidationQueues.longest { return true }
      guard let waitsSince else { return false }
      let limit = mayHoldLock ? InvalidationQueues.patience : InvalidationQueues.limit
      return min(age, now - waitsSince) >= limit
    }
  }

  private var queues: [NodeID: Queue] = [:]
  /// Directories that no thread serves.
  private var ready = FirstInFirstOut<NodeID>()
  /// Directories with deferred replies.
  private var deferring: Set<NodeID> = []
  private var repeats: [(when: Int64, name: StaleName)] = []
  private var names = 0
  /// How many directories replies may depend on.
  private(set) var awaited = 0
  /// Whether the names of any directory have been lost since all were settled.
  private(set) var areAnyLost = false

  // MARK: Adding

  mutating func add(_ stale: some Sequence<StaleName>, in directory: NodeID, isAwaited: Bool, now: Int64) {
    change(directory) { queue, names in
      if isAwaited, queue.awaitedSince == nil { queue.awaitedSince = now }
      for stale in stale {
        if let node = stale.node { queue.moved.insert(node) }
        let old = queue.batch.names[stale.name]
        if old == nil, names >= Self.maximumNames, queue.batch.names.count >= Self.share {
          queue.batch.areNamesLost = true
        }
        if queue.batch.areNamesLost { continue }
        if old == nil { names += 1 }
        queue.batch.names[stale.name] = Staleness(
          mayBeDirectory: stale.mayBeDirectory || old?.mayBeDirectory ?? false)
      }
      guard queue.batch.areNamesLost else { return }
      names -= queue.batch.names.count
      queue.batch.names = [:]
    }
    if hasLostNames(directory) { areAnyLost = true }
  }

  mutating func add(node: NodeID, in directory: NodeID) {
    change(directory) { queue, _ in queue.batch.nodes.insert(node) }
  }

  private mutating func change(_ directory: NodeID, _ body: (inout Queue, inout Int) -> Void) {
    let count = queues.count
    let wasAwaited = isUnsettled(directory)
    body(&queues[directory, default: Queue()], &names)
    if !wasAwaited, isUnsettled(directory) { awaited += 1 }
    if queues.count > count { ready.append(directory) }
  }

  // MARK: Serving

  var readyCount: Int { ready.count }

  /// A directory that no other thread serves from now on, until `takeBatch` returns nil for it.
  mutating func takeReady() -> NodeID? { ready.isEmpty ? nil : ready.removeFirst() }

  /// What is to be sent for a directory, of which nothing is being sent; nil when it is settled.
  ///
  /// - Returns: also the replies that were deferred until what was sent before had been.
  mutating func takeBatch(of directory: NodeID, now: Int64) -> (batch: Batch?, replies: [Reply]) {
    guard var queue = queues[directory] else { return (nil, []) }
    let (ready, others) = queue.deferred.partitioned { $0.batch <= queue.taken }
    let replies = ready.map(\.reply)
    if others.isEmpty { deferring.remove(directory) }
    if queue.batch.isEmpty {
      queues[directory] = nil
      if queues.isEmpty { areAnyLost = false }
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

  /// A name was expired, and is to be expired again. - Returns: whether the clock must be set.
  mutating func addRepeat(of name: StaleName, now: Int64) -> Bool {
    guard repeats.count < Self.maximumNames else { return false }
    repeats.append((now + Self.untilRepeat, name))
    return repeats.count == 1
  }

  /// Drops everything. - Returns: the replies that are still deferred.
  mutating func removeAll() -> [Reply] {
    defer { self = InvalidationQueues() }
    return queues.values.flatMap { $0.deferred.map(\.reply) }
  }

  // MARK: Replies

  /// Whether a path walk through a directory may still meet a stale name.
  func isUnsettled(_ directory: NodeID) -> Bool { queues[directory]?.awaitedSince != nil }

  /// Whether more names of a directory are stale than are remembered.
  func hasLostNames(_ directory: NodeID) -> Bool { queues[directory]?.batch.areNamesLost ?? false }

  /// Keeps a reply until a directory is settled.
  ///
  /// - Returns: whether it was kept; if not, the nodes that a stale name may still lead to.
  mutating func deferReply(
    untilSettled directory: NodeID, for client: pid_t, mayHoldLock: Bool, now: Int64,
    _ reply: @escaping Reply
  ) -> (isDeferred: Bool, moved: Set<NodeID>) {
    guard let queue = queues[directory], let since = queue.awaitedSince else { return (false, []) }
    // A queue that waits longer than that is not waited for.
    guard queue.waitsSince.map({ now - $0 < Self.limit }) ?? (now - since < Self.longest) else {
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
    /// When something is due next; nil where nothing is.
    var next: Int64?
  }

  /// What is due: replies that have been deferred long enough, names to expire again.
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
