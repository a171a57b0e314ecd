import BackingTree
import Glibc
import Testing

/// The kernel's offer of io_uring, a parameter of its module for FUSE.
enum Ring {
  static let parameter = "/sys/module/fuse/parameters/enable_uring"

  static let canBeOffered =
    access(parameter, W_OK) == 0 && text("/proc/sys/kernel/io_uring_disabled") != "2\n"

  /// Held while the parameter counts: it is the whole machine's, and other tests mount at the same time.
  private static let use = RecursionFreeLock()

  /// What this test mounts meanwhile has its requests by io_uring, and so may what other tests mount.
  static func whileOffered<Result>(_ body: () throws -> Result) throws -> Result {
    try whileNoTestOffers {
      let before = try #require(text(parameter))
      try put("Y", at: parameter)
      defer { try? put(before, at: parameter) }
      return try body()
    }
  }

  /// What is mounted meanwhile has its requests by the device, unless another process makes the offer.
  static func whileNoTestOffers<Result>(_ body: () throws -> Result) rethrows -> Result {
    use.lock()
    defer { use.unlock() }
    return try body()
  }
}

extension Trait where Self == ConditionTrait {
  static var ring: Self { .enabled(if: Ring.canBeOffered, "Nobody can have requests by io_uring here.") }
}
