import Glibc

/// An operation that each caller needs to run once after its call. One thread runs it for all threads that call meanwhile.
///
/// With a plain lock each thread would run the operation again, one after the other. On a busy machine each of them waits for the
/// scheduler until all before it have run, which took some hundred milliseconds for five threads.
final class SharedPass: @unchecked Sendable {
  private let lock: UnsafeMutablePointer<pthread_mutex_t> = .allocate(capacity: 1)
  private let ended: UnsafeMutablePointer<pthread_cond_t> = .allocate(capacity: 1)
  private var isPassRunning = false
  /// The number of passes begun and ended, and the number of the pass that the latest caller needs.
  private var started: UInt64 = 0
  private var done: UInt64 = 0
  private var needed: UInt64 = 0
  /// One thread runs at most two passes: its own, and one for the threads that called during it. Its own client waits for it.
  private static let maximumPasses = 2

  init() {
    pthread_mutex_init(lock, nil)
    pthread_cond_init(ended, nil)
  }

  deinit {
    pthread_cond_destroy(ended)
    pthread_mutex_destroy(lock)
    ended.deallocate()
    lock.deallocate()
  }

  /// Returns when a pass that began after the call has ended. Passes never run concurrently, and a pass must not call this.
  func run(_ pass: () -> Void) {
    #if DEBUG
      HeldLocks.add(lock, .delivery)
      defer { HeldLocks.remove(lock) }
    #endif
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    let own = started + 1
    needed = own
    while done < own {
      guard !isPassRunning else {
        pthread_cond_wait(ended, lock)
        continue
      }
      isPassRunning = true
      for _ in 0..<Self.maximumPasses where done < needed {
        started += 1
        pthread_mutex_unlock(lock)
        pass()
        pthread_mutex_lock(lock)
        done = started
        pthread_cond_broadcast(ended)
      }
      isPassRunning = false
      pthread_cond_signal(ended)
    }
  }
}
