import CFuse
import Glibc
import Synchronization

/// How many descriptors the daemon may have open, and which of them it does not give to programs.
///
/// Names are looked up, listed, renamed and removed with descriptors that are open for a moment. Were programs to hold the last
/// ones, nothing could be looked up, not even what has to be closed or removed to get some back.
public enum DescriptorLimit {
  /// Threads that serve requests, at most. A thread that waits for a hung file system costs a descriptor or some, and its stack.
  public static let workers = min(256, max(16, count / 16))

  /// For clients that list directories and can be given no other descriptors.
  static let keptForListing = 2 * workers

  /// As many as the workers need at once, and those.
  private static let kept = 4 * workers + keptForListing

  /// As many as the kernel allows this process. (`setrlimit`, RLIMIT_NOFILE) Called before anything else of this type.
  public static func raise() {
    var limit = rlimit()
    guard getrlimit(nofile, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(nofile, &limit)
  }

  /// Whether a descriptor is among the last ones, which are kept: the kernel always gives the lowest that is free.
  public static func isKept(_ descriptor: CInt) -> Bool { descriptor >= firstKept }

  /// A program got this descriptor.
  public static func given(_ descriptor: CInt) { lastGiven.store(descriptor, ordering: .relaxed) }

  private static let lastGiven = Atomic<CInt>(0)

  /// Whether nothing is left but those that are kept. (`fcntl`, F_DUPFD_CLOEXEC)
  ///
  /// - Parameter descriptor: any that is open.
  public static func isReached(copying descriptor: CInt) -> Bool {
    // Whoever uses them up gets the higher ones before the last.
    if lastGiven.load(ordering: .relaxed) < firstKept / 2 { return false }
    let lowest = Descriptor(adopting: fcntl(descriptor, F_DUPFD_CLOEXEC, 0))
    return lowest.rawValue < 0 || isKept(lowest.rawValue)
  }

  /// How many may be open.
  public static let count: Int = {
    var limit = rlimit()
    return getrlimit(nofile, &limit) == 0 ? Int(clamping: limit.rlim_cur) : .max
  }()

  /// The lowest of those that are kept. Where there are few, programs get half of them.
  static let firstKept = CInt(clamping: max(count - kept, count / 2))

  /// The session, the log, the watch, SOURCE and the like: what the daemon has open for itself for as long as it runs.
  private static let own = 16

  /// How many clients may have, besides those kept for listing: with these and the daemon's own they stay below the ones that
  /// are kept, so that a user with a share left gets it.
  static let forClients = max(Int(firstKept) - own - keptForListing, Int(firstKept) / 2)

  private static var nofile: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_NOFILE.rawValue) }
}
