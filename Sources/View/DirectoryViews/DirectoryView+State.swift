import BackingTree
import DisplayNames

extension DirectoryView {
  /// The mutable state. Only the files of this class use it, with the lock held.
  struct State: ~Copyable {
    var projection = Projection()
    /// The files at entries that another file system is mounted on, and of subvolumes, as of the last look. A listing has other
    /// inode numbers for them, which may be those of other files here.
    var mounted: [Projection.Slot: FileIdentity] = [:]
    /// The version of the projection that was listed last for the kernel to keep.
    var listedVersion: UInt64?
    /// The entries of the directory, which another thread began to read before the directory was watched.
    var ahead: EntriesAhead?
    var reading = Reading.never
    var isRead: Bool { reading != .never }
    /// The names of entries whose status could not be read when they changed. The view may lack such an entry, so requests for the
    /// directory inspect it again.
    var unread: Set<Name> = []
    /// The time of the last round of these retries, in nanoseconds of the monotonic clock.
    var lastRetry = Int64.min / 2
    var facts = EntryInspector.DirectoryFacts()
    /// The users that could see the entries when they were read, where that decides how the entries are shown.
    var audience: Audience?
    /// The names of the entries that `._name` files accompany, whether or not those entries exist.
    var namesWithSidecar: Set<Name> = []
    var sideWatches = SideWatches()
    var times = ComparedTimes()
    var baseline = ReportBaseline()
    var ownEffects = OwnEffects()
  }

  /// Whether the projection shows the directory as it was when it was last read, and as pending changes made it since.
  enum Reading {
    case never
    /// It could not be read again when it had to be, for lack of a descriptor for instance.
    case outdated
    case current
  }

  /// The watches on other directories that decide how entries of this one are listed.
  struct SideWatches {
    /// The directories of the tables that localized names come from, by entry.
    var entries: [Projection.Slot: [(path: [UInt8], subscription: ChangeWatch.Subscription)]] = [:]
    /// The configuration that names the user directories of a home.
    var userDirectories: ChangeWatch.Subscription?
    /// The metadata that netatalk keeps here.
    var netatalk: ChangeWatch.Subscription?
  }

  /// What shows whether something changed, where the watch does not report every change.
  struct ComparedTimes {
    /// The directory's times at the last look, and when they were compared.
    var own: FileTimes?
    var lastComparison: Int64 = 0
    /// Whether another process may have changed something without a change of these times: in the same tick of the file system's
    /// clock, or during a change through the mount.
    var mayHaveMissed = false
    /// The times of each directory in this one, and when they were compared: a marker that appears inside a directory changes how
    /// that directory is listed.
    var inside: [Projection.Slot: FileTimes] = [:]
    var lastComparisonInside: Int64 = 0
  }

  /// What the differences that will be reported are computed from.
  struct ReportBaseline {
    /// How the entries that were inspected since the last report were listed before; nil for an entry that was not listed.
    var before: [Projection.Slot: ListingEntry?] = [:]
    /// The real names that were renamed according to the pending changes, while those are processed.
    var moved: Set<Name> = []
    /// The real names of directories that were found removed and made again, with their inode numbers.
    var remade: Set<Name> = []
    /// The real names of entries that may have changed metadata in another file.
    var metadata: Set<Name> = []
  }

  /// What a change through the mount made stale in the kernel's caches, until the reply to the change.
  struct OwnEffects {
    /// Display names that stand for something else, or for nothing, because the change affected other entries.
    var displaced: [(slot: Projection.Slot, name: StaleName)] = []
    /// The slots of entries that were made or changed, or that compete with such an entry for a name.
    var altered: [Projection.Slot] = []
  }
}
