import Glibc

/// The monotonic clock, in nanoseconds. (`clock_gettime`, CLOCK_MONOTONIC)
///
/// Signed: two threads may read the clock in one order and use what they read in the other, so that an earlier time is
/// subtracted from a later one's place. Of unsigned numbers that would end the daemon.
func monotonicNanoseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// As many as there can be where there are more.
func nanoseconds(ofSeconds seconds: UInt64) -> Int64 {
  let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
  return overflow ? .max : Int64(clamping: nanoseconds)
}
