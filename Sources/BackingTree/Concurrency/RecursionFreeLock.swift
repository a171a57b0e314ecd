import CLinux
import Glibc

/// A plain lock, for code that holds two locks at once or that serializes operations rather than access to state. Use `Guarded`
/// otherwise.
public final class RecursionFreeLock: @unchecked Sendable {
  @usableFromInline let raw: UnsafeMutablePointer<pthread_mutex_t>

  public init() {
    raw = .allocate(capacity: 1)
    pthread_mutex_init(raw, nil)
  }

  deinit {
    pthread_mutex_destroy(raw)
    raw.deallocate()
  }

  @inlinable public func lock() { pthread_mutex_lock(raw) }
  /// Takes the lock unless a thread holds it, which may be the calling thread. - Returns: whether it was taken.
  @inlinable public func tryLock() -> Bool { pthread_mutex_trylock(raw) == 0 }
  /// Whether the calling thread holds the lock. For assertions: it costs a system call.
  public var isHeld: Bool { raw.pointee.__data.__owner == dfs_gettid() }
  @inlinable public func unlock() { pthread_mutex_unlock(raw) }
}
