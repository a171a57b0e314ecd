import Glibc
import Testing

/// The kernel's offer of io_uring, a parameter of its module for FUSE.
enum Ring {
  static let parameter = "/sys/module/fuse/parameters/enable_uring"

  static let canBeOffered =
    access(parameter, W_OK) == 0 && text("/proc/sys/kernel/io_uring_disabled") != "2\n"

  /// What is mounted meanwhile has its requests so.
  static func whileOffered<Result>(_ body: () throws -> Result) throws -> Result {
    let before = try #require(text(parameter))
    try put("Y", at: parameter)
    defer { try? put(before, at: parameter) }
    return try body()
  }
}

extension Trait where Self == ConditionTrait {
  static var ring: Self { .enabled(if: Ring.canBeOffered, "Nobody can have requests by io_uring here.") }
}
