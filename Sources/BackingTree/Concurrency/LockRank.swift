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
      let new = Lock(address: address, rank: rank)
      let record = record
      if waits, let fault = fault(inTaking: new, after: record.locks) { fatalError(fault) }
      record.locks.append(new)
    }

    /// The fault in the order of locks if the calling thread waited for this one; nil if there is none.
    static func faultInTaking(_ address: UnsafeRawPointer, _ rank: LockRank) -> String? {
      fault(inTaking: Lock(address: address, rank: rank), after: record.locks)
    }

    private static func fault(inTaking new: Lock, after held: [Lock]) -> String? {
      guard let held = held.first(where: { !$0.mayPrecede(new) }) else { return nil }
      return "A lock of rank \(new.rank) is taken while one of rank \(held.rank) is held."
    }

    static func contains(_ address: UnsafeRawPointer) -> Bool {
      record.locks.contains { $0.address == address }
    }

    @usableFromInline static func remove(_ address: UnsafeRawPointer) {
      let record = record
      guard let index = record.locks.lastIndex(where: { $0.address == address }) else {
        fatalError("A lock is released that the thread does not hold.")
      }
      record.locks.remove(at: index)
    }
  }
#endif
