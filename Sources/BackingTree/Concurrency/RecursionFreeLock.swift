import CLinux
import Glibc

/// A plain lock, for code that holds two locks at once or that serializes operations rather than access to state. Use `Guarded`
/// otherwise.
public final class RecursionFreeLock: @unchecked Sendable {
  @usableFromInline let raw: UnsafeMutablePointer<pthread_mutex_t>
  #if DEBUG
    @usableFromInline let rank: LockRank
  #endif

  public init(_ rank: LockRank) {
    raw = .allocate(capacity: 1)
    #if DEBUG
      self.rank = rank
    #endif
    pthread_mutex_init(raw, nil)
  }

  deinit {
    pthread_mutex_destroy(raw)
    raw.deallocate()
  }

  @inlinable public func lock() {
    #if DEBUG
      HeldLocks.add(raw, rank)
    #endif
    pthread_mutex_lock(raw)
  }

  /// Takes the lock unless a thread holds it, which may be the calling thread. - Returns: whether it was taken.
  @inlinable public func tryLock() -> Bool {
    guard pthread_mutex_trylock(raw) == 0 else { return false }
    #if DEBUG
      HeldLocks.add(raw, rank, waits: false)
    #endif
    return true
  }

  @inlinable public func unlock() {
    #if DEBUG
      HeldLocks.remove(raw)
    #endif
    pthread_mutex_unlock(raw)
  }

  /// Whether the calling thread holds the lock. For assertions: it costs a system call.
  public var isHeld: Bool { raw.pointee.__data.__owner == dfs_gettid() }
  /// By which of two locks of the same rank is taken first.
  public var address: UInt { UInt(bitPattern: raw) }
}
