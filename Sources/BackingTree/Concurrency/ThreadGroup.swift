/// Threads to be awaited together. Some may block in the kernel on something that the daemon cannot end: a lock held by another
/// process, a file system that does not respond.
package final class ThreadGroup: Sendable {
  private let running = Guarded(0)
  private let end = Semaphore()

  package init() {}

  /// The number of running threads.
  package var count: Int { running.withLock { $0 } }

  /// - Returns: false when the system has no thread left.
  @discardableResult
  package func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    running.withLock { $0 += 1 }
    let thread = Thread { [self] in
      body()
      didEnd()
    }
    guard let thread else {
      didEnd()
      return false
    }
    thread.detach()
    return true
  }

  private func didEnd() {
    running.withLock { $0 -= 1 }
    end.post()
  }

  /// Waits for at most that time until all threads have ended. - Returns: whether they have.
  @discardableResult
  package func waitUntilEnded(milliseconds: Int) -> Bool {
    let start = ContinuousClock.now
    while count > 0 {
      let left = milliseconds - Int((ContinuousClock.now - start) / .milliseconds(1))
      if left <= 0 { return false }
      end.wait(milliseconds: left)
    }
    return true
  }
}
