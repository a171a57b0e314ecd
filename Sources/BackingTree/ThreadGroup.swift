/// Threads that end together, some of which may wait in the kernel for what the daemon cannot end: a lock that another process
/// holds, a file system that does not answer.
package final class ThreadGroup: Sendable {
  private let running = Guarded(0)
  private let end = Semaphore()

  package init() {}

  /// How many threads run.
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

  /// Waits until all have ended, but no longer than that. - Returns: whether they have.
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
