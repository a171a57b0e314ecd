import Glibc

/// The times of the last changes of a file's content (mtime) and status (ctime).
struct FileTimes: Equatable {
  private let seconds: (Int, Int)
  private let nanoseconds: (Int, Int)

  init(_ status: stat) {
    seconds = (status.st_mtim.tv_sec, status.st_ctim.tv_sec)
    nanoseconds = (status.st_mtim.tv_nsec, status.st_ctim.tv_nsec)
  }

  /// Whether a change at that time is so recent that the next change may get the same timestamp.
  static func isRecent(_ time: timespec) -> Bool {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return abs(now.tv_sec - time.tv_sec) <= 2
  }

  /// The current time as the kernel's file systems stamp files with it. (`ktime_get_coarse_real_ts64`)
  static var now: timespec {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME_COARSE, &time)
    return time
  }

  static func == (a: Self, b: Self) -> Bool { a.seconds == b.seconds && a.nanoseconds == b.nanoseconds }
}
