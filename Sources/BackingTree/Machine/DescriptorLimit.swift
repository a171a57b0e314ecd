import CLinux
import Glibc
import Synchronization

/// The daemon's limit of open descriptors, and the reserve of it that clients do not get.
///
/// The daemon opens descriptors for a moment to look up, list, rename and remove entries. If clients held the last descriptors,
/// no entry could be looked up, not even those to be closed or removed to free some.
public enum DescriptorLimit {
  /// The maximum number of threads that serve requests. A thread blocked in a hung file system holds its stack and one or more
  /// descriptors.
  public static let workers = min(256, max(16, count / 16))

  /// The reserve for clients that list directories when they can get no other descriptors.
  static let reservedForListing = 2 * workers

  /// Whether each worker may keep a pipe, two descriptors, to splice content. Where the limit is low, clients need them more.
  public static let allowsPipes = count >= 4096

  /// The reserve: what the workers need at once, their pipes, and the reserve for listing.
  private static let reserve = (allowsPipes ? 6 : 4) * workers + reservedForListing

  /// Raises the soft limit to the hard limit, and enlarges the kernel's table of this process's descriptors. (`setrlimit`,
  /// RLIMIT_NOFILE; `fcntl`, F_DUPFD_CLOEXEC) To be called before anything else of this type, which caches the limit, and while
  /// the process has one thread only.
  ///
  /// The kernel doubles the table when it is full. In a process with several threads, all that open something then wait until no
  /// processor reads the old table any more (`expand_files`, `synchronize_rcu`). In a tree of 3000 directories that took 7 to 24
  /// ms four times.
  public static func raise() {
    var limit = rlimit()
    guard getrlimit(nofile, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(nofile, &limit)
    close(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, CInt(min(limit.rlim_cur, tableSize)) - 1))
  }

  /// How many descriptors fit into the table from the start: one for each of the 4096 directories that may have a view, and as many
  /// for clients. Those of an ordinary user's watches may make it grow. The table takes 66 KiB of the kernel's memory. A computed
  /// property: a global would be initialized under a lock, which must not happen in a forked process.
  private static var tableSize: rlim_t { 8192 }

  /// Whether a descriptor belongs to the reserve. The kernel always allocates the lowest free descriptor, so a high number means
  /// that few are left.
  public static func isReserved(_ descriptor: CInt) -> Bool { descriptor >= firstReserved }

  /// Records a descriptor that is kept open for a client.
  public static func noteOpened(_ descriptor: CInt) { lastOpened.store(descriptor, ordering: .relaxed) }

  private static let lastOpened = Atomic<CInt>(0)

  /// Whether only the reserve is left. (`fcntl`, F_DUPFD_CLOEXEC)
  ///
  /// - Parameter descriptor: any open descriptor, to be duplicated.
  public static func isReached(copying descriptor: CInt) -> Bool {
    // Fast path: as clients use up the descriptors, they get higher and higher ones before the last.
    if lastOpened.load(ordering: .relaxed) < firstReserved / 2 { return false }
    let lowest = Descriptor(adopting: fcntl(descriptor, F_DUPFD_CLOEXEC, 0))
    return lowest.rawValue < 0 || isReserved(lowest.rawValue)
  }

  /// The maximum number of watches that keep a descriptor. inotify watches what is beyond.
  static let forWatches = count / 8

  /// The maximum number of open descriptors.
  public static let count: Int = {
    var limit = rlimit()
    return getrlimit(nofile, &limit) == 0 ? Int(clamping: limit.rlim_cur) : .max
  }()

  /// The lowest descriptor of the reserve. With a low limit, clients get half of it.
  static let firstReserved = CInt(clamping: max(count - reserve, count / 2))

  /// The descriptors that the daemon itself keeps open while it runs: the session, the log, the watch, SOURCE and the like, and in
  /// an ordinary user's daemon those of its watches.
  private static let own = 16 + (geteuid() == 0 ? 0 : forWatches)

  /// The number of descriptors for clients besides `reservedForListing`. Together with that and the daemon's own they stay below
  /// the reserve, so that a user with a share left can use it.
  static let forClients = max(Int(firstReserved) - own - reservedForListing, Int(firstReserved) / 2)

  private static var nofile: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_NOFILE.rawValue) }
}
