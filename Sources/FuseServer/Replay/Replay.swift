import BackingTree
import CLinux
import Glibc
import Logging
import SystemPackage
import View

/// Makes the kernel notify programs that watch the mount of changes that were made in the backing tree.
///
/// The FUSE protocol has no message for that. So a replay thread of the daemon repeats the change through the mount: it creates,
/// removes and renames, and the kernel notifies the programs. The replies to the requests of such a thread describe the state
/// that already exists (`ReplayResponder`); the requests change nothing.
///
/// A replay waits for the locks of its directories, which any user may hold: so there are several threads. Replays that share a
/// directory run one after the other, in the order in which the changes were reported. No other replay and no request waits for
/// them.
final class Replay: @unchecked Sendable {
  private struct QueuedChange {
    let change: ViewChange
    /// The directories that no replay at the same time may use.
    let directories: [NodeID]
    /// Where the directory was that an entry vanished from. It may be gone by now.
    let path: [PathComponent]?
  }

  private struct Queue {
    var changes: [QueuedChange] = []
    /// Directories with too many changes to replay one by one.
    var overflowed: Set<NodeID> = []
    /// Directories whose changes are being replayed.
    var busy: Set<NodeID> = []
    var idleThreads = 0
    var watch = Watch.none
    var hasEnded = false

    var isAnyWaiting: Bool { !changes.isEmpty || !overflowed.isEmpty }

    mutating func add(_ change: QueuedChange) {
      if changes.count < Replay.limit || makeRoom(for: change) {
        changes.append(change)
      } else {
        overflowed.formUnion(change.directories)
      }
    }

    /// Has the directory with the most changes reported as changed: a client that holds its lock must not keep the changes of
    /// others from being replayed.
    ///
    /// - Returns: false where that directory has less than a fair share, or the change is in a directory that is to be reported
    ///   so itself.
    private mutating func makeRoom(for change: QueuedChange) -> Bool {
      if !overflowed.isDisjoint(with: change.directories) { return false }
      var counts: [NodeID: Int] = [:]
      for directory in changes.lazy.flatMap(\.directories) { counts[directory, default: 0] += 1 }
      guard let (largest, count) = counts.max(by: { $0.value < $1.value }), count >= Replay.fairShare,
        !change.directories.contains(largest)
      else { return false }
      for dropped in changes where dropped.directories.contains(largest) {
        overflowed.formUnion(dropped.directories)
      }
      changes.removeAll { $0.directories.contains(largest) }
      return true
    }

    /// Takes the oldest change that shares no directory with an older one that is pending or in progress, else an overflowed
    /// directory.
    mutating func takeJob() -> Job? {
      var taken = busy
      for (index, change) in changes.enumerated() {
        if taken.isDisjoint(with: change.directories) {
          changes.remove(at: index)
          busy.formUnion(change.directories)
          return .replay(change)
        }
        taken.formUnion(change.directories)
      }
      guard let directory = overflowed.first(where: { !taken.contains($0) }) else { return nil }
      overflowed.remove(directory)
      busy.insert(directory)
      return .touch(directory)
    }
  }

  /// Whether an idle thread looks after the changes that wait for a thread, in case it waits for a lock itself.
  private enum Watch { case none, requested, present }

  private enum Job {
    case replay(QueuedChange)
    case touch(NodeID)

    var directories: [NodeID] {
      switch self {
      case .replay(let queued): queued.directories
      case .touch(let directory): [directory]
      }
    }

    var path: [PathComponent]? {
      switch self {
      case .replay(let queued): queued.path
      case .touch: nil
      }
    }
  }

  /// Changes beyond this number are not replayed one by one: their directories are reported as changed.
  private static let limit = 1024
  /// The bound for threads. Each directory whose lock a client holds may block one.
  private static let maximumThreads = 32
  /// The number of pending changes that every directory may have.
  private static let fairShare = limit / maximumThreads
  /// How long changes wait for the threads that are at work before another one takes them, in milliseconds. Most replays take a
  /// fraction of one.
  private static let patience = 5

  let responders = ReplayThreads()
  private let view: View
  /// Where the mount was when it was reached last. A directory above the mount point may be renamed.
  private let place: Guarded<FilePath>
  /// Nil where no mount was found in the table of mounts.
  private let mount: MountTable.Line?
  private let notifier: KernelNotifier
  private let queue = Guarded(Queue())
  private let threads = ThreadGroup()
  private let wake = Semaphore()
  /// The device number of the mount, once it has been seen.
  private let device = Guarded<UInt64?>(nil)

  init(view: View, mountPoint: FilePath, mount: MountTable.Line? = nil, notifier: KernelNotifier) {
    self.notifier = notifier
    self.view = view
    self.mount = mount
    place = Guarded(mountPoint)
  }

  /// Queues changes for replay.
  func add(_ changes: [ViewChange]) {
    let changes = queued(changes)
    let isNoneIdle = queue.withLock { queue -> Bool in
      guard !queue.hasEnded else { return false }
      for change in changes { queue.add(change) }
      return queue.idleThreads == 0
    }
    if isNoneIdle { start() }
    wake.post()
  }

  func start() {
    if threads.count < Self.maximumThreads { threads.start { [self] in run() } }
  }

  /// Replays nothing from now on.
  func stop() {
    queue.withLock { $0.hasEnded = true }
    for _ in 0..<threads.count { wake.post() }
  }

  /// Waits for the threads. Called after the session has ended, which ends what the threads wait for in it.
  func waitUntilEnded(milliseconds: Int) -> Bool { threads.waitUntilEnded(milliseconds: milliseconds) }

  private func run() {
    let responder = self.responders.add(Thread.current, view)
    // The kernel may reuse the TID for a client's thread.
    defer { self.responders.remove(Thread.current) }
    while let first = waitForJob() {
      var next: Job? = first
      // Open for a moment only: an open descriptor may keep the mount busy for unmounting.
      if let root = openMount() {
        var replaying = ReplayingThread(
          view: view, notifier: notifier, responder: responder, root: Directory(descriptor: root.rawValue))
        guard replaying.isRecognized() else {
          giveUp(first)
          view.logger.notice("programs that watch the mount are not notified of changes in the backing tree")
          return
        }
        while let job = next {
          if !hasEnded {
            replaying.recordedPath = job.path
            switch job {
            case .replay(let queued): replaying.perform(queued.change)
            case .touch(let directory): replaying.touch(directory)
            }
          }
          finish(job)
          next = take()
        }
      } else {
        giveUp(first)
      }
    }
  }

  /// - Returns: nil when no change is to be replayed any more.
  private func waitForJob() -> Job? {
    while true {
      let isWatching = queue.withLock { queue in
        queue.idleThreads += 1
        guard queue.watch == .requested else { return false }
        queue.watch = .present
        return true
      }
      if isWatching { wake.wait(milliseconds: Self.patience) } else { wake.wait() }
      let isRequested = queue.withLock { queue in
        queue.idleThreads -= 1
        if isWatching { queue.watch = .none }
        return queue.watch == .requested
      }
      if hasEnded { return nil }
      if !isRequested, let job = take() { return job }
    }
  }

  private func queued(_ changes: [ViewChange]) -> [QueuedChange] {
    var paths: [NodeID: [PathComponent]] = [:]
    return changes.map { change in
      switch change {
      case .appeared(let item), .written(let item), .attributes(let item):
        return QueuedChange(change: change, directories: [item.directory], path: nil)
      case .renamed(let old, let new):
        return QueuedChange(change: change, directories: [old.directory, new.directory], path: nil)
      case .vanished(let item):
        if paths[item.directory] == nil { paths[item.directory] = view.lastPath(to: item.directory) }
        // A directory is gone after what was in it.
        let directories = [item.directory, view.directoryNode(of: item)].compactMap(\.self)
        return QueuedChange(change: change, directories: directories, path: paths[item.directory])
      }
    }
  }

  /// Takes a job that can run now. If others wait, has an idle thread look after them.
  private func take() -> Job? {
    let (job, isWatchNeeded, isNoneIdle) = queue.withLock { queue in
      let job = queue.takeJob()
      let isWatchNeeded = job != nil && queue.isAnyWaiting && queue.watch == .none
      if isWatchNeeded { queue.watch = .requested }
      return (job, isWatchNeeded, queue.idleThreads == 0)
    }
    if isWatchNeeded {
      if isNoneIdle { start() } else { wake.post() }
    }
    return job
  }

  private func finish(_ job: Job) { queue.withLock { $0.busy.subtract(job.directories) } }

  /// Leaves the other changes to another thread.
  private func giveUp(_ job: Job) {
    finish(job)
    wake.post()
  }

  private var hasEnded: Bool { queue.withLock { $0.hasEnded } }

  /// Milliseconds between attempts to open the mount, where descriptors or memory have run out for a moment.
  private static let pauses = [1, 10, 100, 1000, 5000]

  /// - Returns: nil if the mount cannot be reached, because another mount covers it or the session has ended.
  private func openMount() -> Descriptor? {
    for pause in Self.pauses + [0] {
      let known = place.withLock { $0 }
      var opened = known.withPlatformString { dfs_open_mount($0) }
      var error = Errno(rawValue: errno)
      if opened >= 0, let root = checked(Descriptor(adopting: opened)) { return root }
      // To read the table of mounts takes longer than to try the path.
      if let present = mount?.present?.mountPoint, present != known {
        opened = present.withPlatformString { dfs_open_mount($0) }
        error = Errno(rawValue: errno)
        if opened >= 0, let root = checked(Descriptor(adopting: opened)) {
          place.withLock { $0 = present }
          return root
        }
      }
      if opened >= 0 || hasEnded { return nil }
      guard pause > 0, view.releaseDescriptors(after: error) || error == .noMemory else {
        view.logger.notice(
          "programs that watch the mount are not notified of a change: \(known) cannot be opened: \(error)"
        )
        return nil
      }
      usleep(useconds_t(pause * 1000))
    }
    return nil
  }

  private func checked(_ root: consuming Descriptor) -> Descriptor? {
    guard let status = try? fileStatus(root.rawValue), status.st_ino == view.rootInode else { return nil }
    // Another mount may cover this one by now.
    let isMount = device.withLock { device in
      let isMount =
        device.map { $0 == UInt64(status.st_dev) } ?? mount?.isFileSystem(of: UInt64(status.st_dev)) ?? true
      if isMount { device = UInt64(status.st_dev) }
      return isMount
    }
    if isMount { return root }
    return nil
  }
}
