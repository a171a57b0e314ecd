import Glibc

/// Work that every caller needs done once after it has called, and that one thread does for all that call meanwhile.
///
/// Behind a plain lock each thread would do it again, one after the other. On a busy machine each of them waits for the
/// scheduler until all before it have run, which took some hundred milliseconds for five of them.
final class SharedPass: @unchecked Sendable {
  private let lock: UnsafeMutablePointer<pthread_mutex_t> = .allocate(capacity: 1)
  private let ended: UnsafeMutablePointer<pthread_cond_t> = .allocate(capacity: 1)
  private var isUnderWay = false
  /// How many passes have begun and ended, and which one the last caller needs.
  private var begun: UInt64 = 0
  private var done: UInt64 = 0
  private var needed: UInt64 = 0
  /// A thread goes on for those that came during its own pass, but no longer: its own client waits.
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

  /// Returns when a pass has ended that began after the call. No two run at once, and a pass must not call this.
  func run(_ pass: () -> Void) {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    let own = begun + 1
    needed = own
    while done < own {
      guard !isUnderWay else {
        pthread_cond_wait(ended, lock)
        continue
      }
      isUnderWay = true
      for _ in 0..<Self.maximumPasses where done < needed {
        begun += 1
        pthread_mutex_unlock(lock)
        pass()
        pthread_mutex_lock(lock)
        done = begun
        pthread_cond_broadcast(ended)
      }
      isUnderWay = false
      pthread_cond_signal(ended)
    }
  }
}
