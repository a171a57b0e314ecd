import Glibc

/// A plain lock for code that must hold two of them, which `Mutex` with its closures cannot express.
final class RecursionFreeLock: @unchecked Sendable {
  private let raw: UnsafeMutablePointer<pthread_mutex_t>

  init() {
    raw = .allocate(capacity: 1)
    pthread_mutex_init(raw, nil)
  }

  deinit {
    pthread_mutex_destroy(raw)
    raw.deallocate()
  }

  func lock() { pthread_mutex_lock(raw) }
  func unlock() { pthread_mutex_unlock(raw) }
}
