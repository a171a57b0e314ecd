import BackingTree

/// A pool of threads for work that may wait for a lock that a client holds, or for the backing file system, and a timer thread.
///
/// There are as many threads as jobs that wait at the same time, within a bound.
final class NotifierPool: Sendable {
  private static let minimum = 2
  /// While processes block more directories than this, stale names in other directories stay until their entry timeout.
  private static let maximum = 512
  /// How long a thread beyond the minimum waits for work before it ends, in milliseconds.
  private static let idleTime = 2000
  /// The delay before another attempt to start a thread, in milliseconds.
  private static let pause = 100

  private struct State {
    var jobs = FirstInFirstOut<@Sendable () -> Void>()
    var idle = 0
    var hasEnded = false
  }

  private let state = Guarded(State())
  private let threads = ThreadGroup()
  private let work = Semaphore()
  private let timerWakeup = Semaphore()

  /// - Parameter tick: called by the timer thread at the start, on `wakeTimer`, and after the milliseconds that it returned. It
  ///   must not block.
  func start(tick: @escaping @Sendable () -> Int?) {
    for _ in 0..<Self.minimum { startThread() }
    threads.start { [self] in
      while !state.withLock({ $0.hasEnded }) {
        var wait = tick()
        // The system may have been out of threads for a moment.
        if !startNeededThreads() { wait = min(wait ?? Self.pause, Self.pause) }
        if let wait { timerWakeup.wait(milliseconds: wait) } else { timerWakeup.wait() }
      }
    }
  }

  func wakeTimer() { timerWakeup.post() }

  /// Runs a job on a thread of the pool; on the calling thread once the pool is stopped.
  func add(_ job: @escaping @Sendable () -> Void) {
    let (hasEnded, needsThread) = state.withLock { state -> (Bool, Bool) in
      if state.hasEnded { return (true, false) }
      state.jobs.append(job)
      return (false, state.jobs.count > state.idle)
    }
    if hasEnded { return job() }
    // The timer thread starts it, not the calling thread: that may be a worker with the policy SCHED_IDLE, which a new thread
    // would inherit until it first runs.
    if needsThread { timerWakeup.post() }
    work.post()
  }

  /// Starts no more jobs, and waits for the threads, at most for the given time.
  ///
  /// - Returns: the jobs that were not started.
  func stop(milliseconds: Int) -> [@Sendable () -> Void] {
    state.withLock { $0.hasEnded = true }
    timerWakeup.post()
    for _ in 0..<threads.count { work.post() }
    threads.waitUntilEnded(milliseconds: milliseconds)
    return state.withLock { $0.jobs.removeAll() }
  }

  func waitUntilEnded(milliseconds: Int) -> Bool { threads.waitUntilEnded(milliseconds: milliseconds) }

  /// - Returns: false when a thread could not be started.
  private func startNeededThreads() -> Bool {
    let needed = state.withLock { $0.hasEnded ? 0 : $0.jobs.count - $0.idle }
    // `threads.count` includes the timer thread.
    for _ in 0..<max(0, min(needed, Self.maximum + 1 - threads.count)) where !startThread() { return false }
    return true
  }

  @discardableResult
  private func startThread() -> Bool {
    // Counted as idle before it runs, so that no further thread is started in its place.
    state.withLock { $0.idle += 1 }
    if threads.start({ [self] in run() }) { return true }
    state.withLock { $0.idle -= 1 }
    return false
  }

  private func run() {
    while true {
      var isWoken = true
      if state.withLock({ $0.idle > Self.minimum }) {
        isWoken = work.wait(milliseconds: Self.idleTime)
      } else {
        work.wait()
      }
      let (job, ends) = state.withLock { state -> ((@Sendable () -> Void)?, Bool) in
        if state.hasEnded { return (nil, true) }
        if !state.jobs.isEmpty, isWoken {
          state.idle -= 1
          return (state.jobs.removeFirst(), false)
        }
        guard !isWoken, state.idle > Self.minimum, state.idle > state.jobs.count else { return (nil, false) }
        state.idle -= 1
        return (nil, true)
      }
      if ends {
        // Pass the wakeup on: `stop` did not count a thread that was started at the same time.
        if state.withLock({ $0.hasEnded }) { work.post() }
        return
      }
      guard let job else { continue }
      job()
      state.withLock { $0.idle += 1 }
    }
  }
}
