import Glibc

/// What one run of a workload gave.
struct Measurement {
  /// In the workload's unit.
  let value: Double
  /// Nil where there are no operations.
  var secondsPerOperation: Double?
  /// Nil where they were not counted.
  var requestsPerOperation: Double?
}

/// Seconds of the monotonic clock.
func now() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  let middle = sorted.count / 2
  return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
