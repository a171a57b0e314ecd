import Glibc

/// The monotonic clock, in nanoseconds. (`clock_gettime`, CLOCK_MONOTONIC)
///
/// Signed: two threads may read the clock in one order and use their values in the other, so that a later time is subtracted
/// from an earlier one. With unsigned numbers the underflow would end the daemon.
func monotonicNanoseconds() -> Int64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// Converts seconds to nanoseconds; `Int64.max` for more than that.
func nanoseconds(ofSeconds seconds: UInt64) -> Int64 {
  let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
  return overflow ? .max : Int64(clamping: nanoseconds)
}
