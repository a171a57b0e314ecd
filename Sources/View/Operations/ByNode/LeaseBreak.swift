import Glibc
import SystemPackage

/// Waiting until the holder of a lease on a backing file gives it up. (fcntl(2), F_SETLEASE)
///
/// The daemon opens with O_NONBLOCK, so that a FIFO in a file's place cannot block a worker. That open signals the holder and
/// starts the time after which the kernel breaks the lease (`/proc/sys/fs/lease-break-time`, 45 s). So it is enough to retry
/// the open, with no directory locked meanwhile.
enum LeaseBreak {
  /// The pause between two tries, in microseconds.
  private static let pauses: ClosedRange<useconds_t> = 1000...20_000

  /// Runs `open` until it does not fail with EWOULDBLOCK.
  ///
  /// - Parameter flags: the flags of the client's open.
  /// - Throws: EINTR when the client has abandoned the request; EWOULDBLOCK when it opens with O_NONBLOCK.
  static func retry<R: ~Copyable>(
    _ flags: CInt, _ isInterrupted: () -> Bool, _ open: () throws(Errno) -> R
  ) throws(Errno) -> R {
    do throws(Errno) { return try open() } catch {
      guard error == .wouldBlock, flags & O_NONBLOCK == 0 else { throw error }
    }
    var pause = pauses.lowerBound
    while !isInterrupted() {
      usleep(pause)
      pause = min(pause * 2, pauses.upperBound)
      do throws(Errno) { return try open() } catch { if error != .wouldBlock { throw error } }
    }
    throw .interrupted
  }
}
