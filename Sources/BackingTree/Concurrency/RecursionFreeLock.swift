import CLinux
import Synchronization

/// A plain lock, for code that holds two locks at once or that serializes operations rather than access to state. Use `Guarded`
/// otherwise.
///
/// It works as glibc's mutex does, by a word and a futex(2), but one instruction of the calling code takes a lock that is free,
/// instead of a call of 31 instructions: a request takes up to ninety locks (`Mount/request-cost`).
public final class RecursionFreeLock: @unchecked Sendable {
  /// 0 where the lock is free, 1 where a thread has it, 2 where another thread may wait for it as well.
  @usableFromInline let word: UnsafeMutablePointer<Atomic<UInt32>>
  #if DEBUG
    @usableFromInline let rank: LockRank
  #endif

  public init(_ rank: LockRank) {
    word = .allocate(capacity: 1)
    word.initialize(to: Atomic(0))
    #if DEBUG
      self.rank = rank
    #endif
  }

  deinit {
    word.deinitialize(count: 1)
    word.deallocate()
  }

  @inlinable public func lock() {
    #if DEBUG
      HeldLocks.add(word, rank)
    #endif
    if !take() { wait() }
  }

  /// Takes the lock unless a thread holds it, which may be the calling thread. - Returns: whether it was taken.
  @inlinable public func tryLock() -> Bool {
    guard take() else { return false }
    #if DEBUG
      HeldLocks.add(word, rank, waits: false)
    #endif
    return true
  }

  @inlinable public func unlock() {
    #if DEBUG
      HeldLocks.remove(word)
    #endif
    if word.pointee.exchange(0, ordering: .releasing) == 2 { wakeOne() }
  }

  @inlinable func take() -> Bool {
    word.pointee.compareExchange(
      expected: 0, desired: 1, successOrdering: .acquiring, failureOrdering: .relaxed
    ).exchanged
  }

  /// Takes the lock as one for which another thread may wait, which is not known from here on.
  @usableFromInline func wait() {
    while word.pointee.exchange(2, ordering: .acquiring) != 0 { dfs_futex_wait(word, 2) }
  }

  @usableFromInline func wakeOne() { dfs_futex_wake_one(word) }

  /// Whether the calling thread holds the lock, for assertions: a release build does not know.
  public var isHeld: Bool {
    #if DEBUG
      HeldLocks.contains(word)
    #else
      true
    #endif
  }
  /// By which of two locks of the same rank is taken first.
  public var address: UInt { UInt(bitPattern: word) }
}
