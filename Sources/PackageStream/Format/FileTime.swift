import Glibc

/// A timestamp of a file.
struct FileTime: Hashable, Comparable, Sendable {
  /// Seconds since 1970, negative before.
  let seconds: Int64
  /// 0..<1 000 000 000, counted forward from `seconds`.
  let nanoseconds: Int32

  static let epoch = FileTime(seconds: 0, nanoseconds: 0)
  static let distantPast = FileTime(seconds: .min, nanoseconds: 0)

  init(seconds: Int64, nanoseconds: Int32) {
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }

  init(_ time: timespec) {
    self.init(seconds: Int64(time.tv_sec), nanoseconds: Int32(truncatingIfNeeded: time.tv_nsec))
  }

  var timespec: timespec { Glibc.timespec(tv_sec: Int(seconds), tv_nsec: Int(nanoseconds)) }

  static func < (left: FileTime, right: FileTime) -> Bool {
    (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
  }
}
