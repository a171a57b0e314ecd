import Glibc

/// When a file's content and its status last changed.
struct FileTimes: Equatable {
  private let seconds: (Int, Int)
  private let nanoseconds: (Int, Int)

  init(_ status: stat) {
    seconds = (status.st_mtim.tv_sec, status.st_ctim.tv_sec)
    nanoseconds = (status.st_mtim.tv_nsec, status.st_ctim.tv_nsec)
  }

  /// Whether a file that last changed then did so short a time ago that the next change may get the same time.
  static func isRecent(_ time: timespec) -> Bool {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return abs(now.tv_sec - time.tv_sec) <= 2
  }

  static func == (a: Self, b: Self) -> Bool { a.seconds == b.seconds && a.nanoseconds == b.nanoseconds }
}
