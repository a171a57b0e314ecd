import BackingTree
import Glibc
import SystemPackage
import View

/// The requests for locks that may take a while: those that wait for a lock (F_SETLKW, flock(2) without LOCK_NB), and those after
/// which the page cache is dropped.
///
/// They occupy no worker: a thread tries again for all of them, in the order in which they came. It does so at once when a
/// client of the view releases a lock of the file, and else in intervals, because the kernel reports no release of a lock that
/// a process has beneath the view. Each user with such requests has a thread, because an attempt may block where a file system
/// does not respond.
final class LockWaiters: Sendable {
  /// The intervals between attempts: each is twice as long as the one before.
  private static let intervals = (shortest: Duration.milliseconds(1), longest: Duration.milliseconds(64))
  /// How many times as long as attempts took the thread then pauses, so that thousands of waiting requests do not occupy a
  /// processor: in any case, and where no lock has been released.
  private static let rest = (always: 1, usually: 9)

  /// How long a thread without requests stays, in milliseconds: a client that takes one lock takes more.
  private static let linger = 1000
  /// The most threads. One person may have thousands of users (user_namespaces(7)): the users beyond share a thread with another.
  private static let mostThreads = 64

  private struct Waiter: @unchecked Sendable {
    let request: Request
    let node: NodeID
    /// Whether it waits while the lock is another's.
    let waits: Bool
    let attempt: @Sendable () throws(Errno) -> Void
    var interval = LockWaiters.intervals.shortest
    var due: ContinuousClock.Instant
  }

  private struct Queue: Sendable {
    var waiters: [Waiter] = []
    /// The nodes with locks that were released since the last attempts.
    var released: Set<NodeID> = []
    let wake = Semaphore()
    private var isAwake = false

    mutating func wakeThread() {
      if isAwake { return }
      isAwake = true
      wake.post()
    }

    /// Takes what the thread is to attend to.
    mutating func take() -> Queue {
      let all = self
      waiters = []
      released = []
      isAwake = false
      return all
    }
  }

  private struct State {
    /// The users with a thread.
    var queues: [uid_t: Queue] = [:]
    var hasEnded = false
  }

  private let state = Guarded(State())
  private let threads = ThreadGroup()

  /// Takes over a request. It is replied to when `attempt` succeeds or fails; with EINTR when the client is interrupted, or the
  /// session ends.
  ///
  /// - Parameters:
  ///   - waits: whether to try again after EAGAIN, until the lock is free.
  ///   - isFirstAttempt: whether to try at once.
  func add(
    _ request: Request, for node: NodeID, waits: Bool, isFirstAttempt: Bool,
    _ attempt: @escaping @Sendable () throws(Errno) -> Void
  ) {
    let client = request.client.user
    let waiter = Waiter(
      request: request, node: node, waits: waits, attempt: attempt,
      due: isFirstAttempt ? .now : .now + Self.intervals.shortest)
    let (user, isNew) = state.withLock { state in
      let user = Self.thread(for: client, among: state.queues.keys)
      let isNew = state.queues[user] == nil
      state.queues[user, default: Queue()].waiters.append(waiter)
      state.queues[user]?.wakeThread()
      return (user, isNew)
    }
    guard isNew, !threads.start({ [self] in run(for: user) }) else { return }
    let refused = state.withLock { $0.queues.removeValue(forKey: user)?.waiters ?? [] }
    for waiter in refused { waiter.request.fail(.noLocks) }
  }

  /// The user that has the thread for the requests of a user.
  static func thread(for user: uid_t, among users: some Collection<uid_t>) -> uid_t {
    if users.count < mostThreads || users.contains(user) { return user }
    return users.sorted()[Int(user) % users.count]
  }

  /// Has those that wait for a lock on a file try again.
  func wake(_ node: NodeID) {
    state.withLock { state in
      for user in state.queues.keys {
        state.queues[user]?.released.insert(node)
        state.queues[user]?.wakeThread()
      }
    }
  }

  /// Replies to all requests. Called before the session's descriptor is closed.
  func stop() {
    state.withLock { state in
      state.hasEnded = true
      for queue in state.queues.values { queue.wake.post() }
    }
    _ = waitUntilEnded()
  }

  /// - Returns: false when a thread still waits for the backing file system, with requests that have no reply yet.
  func waitUntilEnded() -> Bool { threads.waitUntilEnded(milliseconds: 200) }

  private func run(for user: uid_t) {
    var isIdle = false
    while let (queue, hasEnded) = next(for: user, endsIfIdle: isIdle) {
      isIdle = queue.waiters.isEmpty
      if isIdle {
        queue.wake.wait(milliseconds: Self.linger)
        continue
      }
      let start = ContinuousClock.now
      var left: [Waiter] = []
      for waiter in queue.waiters {
        if hasEnded || waiter.request.isInterrupted {
          waiter.request.fail(.interrupted)
        } else if waiter.due > start, !queue.released.contains(waiter.node) {
          left.append(waiter)
        } else if let again = Self.attempt(waiter) {
          left.append(again)
        }
      }
      let end = ContinuousClock.now
      let due = left.map(\.due).min() ?? end
      putBack(left, for: user)
      // An attempt may have blocked for long.
      let spent = min(end - start, .milliseconds(100))
      usleep(UInt32(spent * Self.rest.always / .microseconds(1)))
      let pause = max(due - end, spent * Self.rest.usually)
      queue.wake.wait(milliseconds: Int(pause / .milliseconds(1)) + 1)
    }
  }

  /// - Returns: the waiter where the lock is still another's.
  private static func attempt(_ waiter: Waiter) -> Waiter? {
    do throws(Errno) {
      try waiter.attempt()
      waiter.request.succeed()
    } catch {
      if waiter.waits, error == .resourceTemporarilyUnavailable {
        var waiter = waiter
        waiter.interval = min(waiter.interval * 2, intervals.longest)
        waiter.due = .now + waiter.interval
        return waiter
      }
      waiter.request.fail(error)
    }
    return nil
  }

  /// Takes the requests of a user. Nil when there are none and the thread is to end: then the user has no thread any more.
  private func next(for user: uid_t, endsIfIdle: Bool) -> (Queue, hasEnded: Bool)? {
    state.withLock { state in
      guard state.queues[user]?.waiters.isEmpty == false || !endsIfIdle && !state.hasEnded else {
        state.queues[user] = nil
        return nil
      }
      return (state.queues[user]!.take(), state.hasEnded)
    }
  }

  private func putBack(_ waiters: [Waiter], for user: uid_t) {
    state.withLock { $0.queues[user]?.waiters.insert(contentsOf: waiters, at: 0) }
  }
}
