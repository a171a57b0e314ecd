import Glibc

/// The ranks of locks: a thread takes a lock only while all that it holds have a lower rank, so that no two threads wait for each
/// other. `Sources/README.md` says what may be done under each.
public enum LockRank: Comparable, Sendable {
  /// One open file's or directory's own, held during system calls. Taken with no other held.
  case openFile
  /// A directory view's. Of two, the one with the lower address is taken first.
  case directoryView
  /// One thread reads events for all that drain.
  case delivery
  /// A watch begins or ends.
  case marking
  /// Under it, no other lock is taken.
  case leaf
}

#if DEBUG
  /// The locks that the calling thread holds. Debug builds trap where a thread takes a lock out of order.
  @usableFromInline enum HeldLocks {
    private struct Lock {
      let address: UnsafeRawPointer
      let rank: LockRank

      func mayPrecede(_ next: Lock) -> Bool {
        rank < next.rank || rank == .directoryView && next.rank == .directoryView && address < next.address
      }
    }

    private final class Record { var locks: [Lock] = [] }

    private static let key: pthread_key_t = {
      var key = pthread_key_t()
      pthread_key_create(&key) { Unmanaged<Record>.fromOpaque($0!).release() }
      return key
    }()

    private static var record: Record {
      if let known = pthread_getspecific(key) { return Unmanaged.fromOpaque(known).takeUnretainedValue() }
      let new = Record()
      pthread_setspecific(key, Unmanaged.passRetained(new).toOpaque())
      return new
    }

    /// - Parameter waits: whether the calling thread waits for the lock. One that does not wait cannot deadlock.
    @usableFromInline static func add(_ address: UnsafeRawPointer, _ rank: LockRank, waits: Bool = true) {
      if waits, let fault = faultInTaking(address, rank) { fatalError(fault) }
      record.locks.append(Lock(address: address, rank: rank))
    }

    /// The fault in the order of locks if the calling thread waited for this one; nil if there is none.
    static func faultInTaking(_ address: UnsafeRawPointer, _ rank: LockRank) -> String? {
      let new = Lock(address: address, rank: rank)
      guard let held = record.locks.first(where: { !$0.mayPrecede(new) }) else { return nil }
      return "A lock of rank \(rank) is taken while one of rank \(held.rank) is held."
    }

    static func contains(_ address: UnsafeRawPointer) -> Bool {
      record.locks.contains { $0.address == address }
    }

    @usableFromInline static func remove(_ address: UnsafeRawPointer) {
      if let fault = faultInReleasing(address) { fatalError(fault) }
      let record = record
      record.locks.remove(at: record.locks.lastIndex { $0.address == address }!)
    }

    /// The fault if the calling thread released a lock; nil if there is none.
    static func faultInReleasing(_ address: UnsafeRawPointer) -> String? {
      contains(address) ? nil : "A lock is released that the thread does not hold."
    }
  }
#endif
