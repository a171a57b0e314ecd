import CLinux
import Glibc

/// A counting semaphore. (`sem_t`)
package final class Semaphore: @unchecked Sendable {
  private let raw = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  package init() { sem_init(raw, 0, 0) }

  deinit {
    sem_destroy(raw)
    raw.deallocate()
  }

  package func post() { sem_post(raw) }
  package func wait() { while sem_wait(raw) != 0 {} }

  /// Waits for at most that time, measured with CLOCK_MONOTONIC. - Returns: false on timeout.
  @discardableResult
  package func wait(milliseconds: Int) -> Bool {
    var end = timespec()
    clock_gettime(CLOCK_MONOTONIC, &end)
    let nanoseconds = end.tv_nsec + milliseconds * 1_000_000
    end.tv_sec += nanoseconds / 1_000_000_000
    end.tv_nsec = nanoseconds % 1_000_000_000
    return dfs_semaphore_wait(raw, &end)
  }
}
