import CFuse
import Glibc

/// A plain lock, for code that must hold two of them, or that guards no state but a course of events; `Guarded` is for
/// the rest.
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
  /// Takes the lock unless somebody has it, who may be the calling thread. - Returns: whether it was taken.
  @inlinable public func tryLock() -> Bool { pthread_mutex_trylock(raw) == 0 }
  /// Whether the calling thread has the lock. For assertions: it costs a system call.
  public var isHeld: Bool { raw.pointee.__data.__owner == dfs_gettid() }
  @inlinable public func unlock() { pthread_mutex_unlock(raw) }
}
