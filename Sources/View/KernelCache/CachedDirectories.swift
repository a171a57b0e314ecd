import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// A directory of which the kernel may cache entries and attributes.
public final class CachedDirectory: Sendable {
  let node: NodeID
  /// The number of changes that the watch reported or that were made through the mount, pure content changes excepted.
  private let changes = Atomic<UInt64>(0)
  /// The number of changes of nothing but the content of files in it. They affect neither names nor the directory itself.
  private let contentChanges = Atomic<UInt64>(0)
  private let news = Guarded(News())

  /// Changes that the watch reported and the change loop has not processed yet.
  struct News: Sendable {
    /// The names of entries that were added, removed or replaced.
    var names: Set<Name> = []
    /// The names of entries whose content or attributes changed.
    var contents: Set<Name> = []
    /// The directory's own attributes changed.
    var isItselfChanged = false
    /// All that the kernel caches of the directory is stale.
    var isEverything = false
    fileprivate var isAnnounced = false
  }

  /// With more pending names than this, the whole directory is treated as changed.
  private static let limit = 4096

  /// The names of which the kernel may hold negative entries.
  private let absent = Guarded<Set<Name>>([])

  /// The maximum number of negative entries in one directory: each has to be invalidated by name.
  private static let maximumAbsent = 1024

  fileprivate init(node: NodeID) { self.node = node }

  /// Records that the kernel is about to cache a negative entry.
  ///
  /// - Returns: false when it must not.
  fileprivate func noteAbsent(_ name: Name) -> Bool {
    absent.withLock { absent in
      if absent.count < Self.maximumAbsent { absent.insert(name) }
      return absent.contains(name)
    }
  }

  /// Removes a name from the record of negative entries.
  ///
  /// - Returns: whether the kernel may hold a negative entry of that name.
  func takeAbsent(_ name: Name) -> Bool { absent.withLock { $0.remove(name) != nil } }

  /// Removes and returns all names of which the kernel may hold negative entries.
  func takeAbsent() -> Set<Name> {
    absent.withLock { absent in
      defer { absent = [] }
      return absent
    }
  }

  var hasAbsent: Bool { absent.withLock { !$0.isEmpty } }

  fileprivate var count: UInt64 { changes.load(ordering: .acquiring) }
  fileprivate var contentCount: UInt64 { contentChanges.load(ordering: .acquiring) }

  /// Records a change that was made through the mount.
  fileprivate func noteOwnChange() { changes.add(1, ordering: .releasing) }

  /// Records a change that the watch reported.
  ///
  /// - Returns: whether the directory has to be announced to the change loop.
  fileprivate func note(_ change: ChangeWatch.Change) -> Bool {
    // The kernel already knows of content that the daemon wrote on its behalf.
    if change.isOwnMereContent { return false }
    // Count the change before it is queued: a worker whose reply may be stale then finds its lease broken after the reply.
    if change.isMereContent {
      contentChanges.add(1, ordering: .releasing)
    } else {
      changes.add(1, ordering: .releasing)
    }
    return news.withLock { news in
      switch change {
      case .entry(let name, _):
        news.names.insert(Name(copying: name))
        news.isItselfChanged = true
      case .content(let name, _), .modification(let name, _), .attributes(let name):
        news.contents.insert(Name(copying: name))
      case .itself: news.isItselfChanged = true
      case .everything: news.isEverything = true
      }
      if news.names.count + news.contents.count > Self.limit { news.isEverything = true }
      if news.isEverything {
        news.names = []
        news.contents = []
      }
      defer { news.isAnnounced = true }
      return !news.isAnnounced
    }
  }

  func takeNews() -> News {
    news.withLock { news in
      defer { news = News() }
      return news
    }
  }
}

/// A snapshot of a directory's change counts. What a reply says of the directory, or of something in it, holds until the lease
/// is broken.
///
/// A worker takes it before it looks at the backing tree. A change may break it while the reply is on its way, when an
/// invalidation would come too early. So the worker checks the lease again after it has replied (`View.settle`).
public struct CacheLease: Sendable {
  fileprivate let directory: CachedDirectory
  private var count: UInt64
  private let contentCount: UInt64

  fileprivate init(_ directory: CachedDirectory) {
    self.directory = directory
    count = directory.count
    contentCount = directory.contentCount
  }

  /// Whether a reply about what a name stands for may be stale.
  public var isBroken: Bool { directory.count != count }

  /// Whether a reply with the attributes of the directory, or of a file in it, may be stale.
  func isBroken(for node: NodeID) -> Bool {
    isBroken || node != directory.node && directory.contentCount != contentCount
  }

  /// Records that the kernel is about to cache a negative entry.
  ///
  /// - Returns: false when it must not.
  func noteAbsent(_ name: Name) -> Bool { directory.noteAbsent(name) }

  /// Records a change of the directory by the holder of this lease: it breaks all other leases of the directory.
  mutating func noteOwnChange() {
    directory.noteOwnChange()
    count += 1
  }
}

/// The directories of which the kernel may cache entries and attributes. Each is watched.
final class CachedDirectories: Sendable {
  private typealias Watched = (directory: CachedDirectory, registration: ChangeWatch.Registration)

  private struct State {
    var directories = RecentlyUsed<Watched>()
    var news: [CachedDirectory] = []
    var kernel: (any KernelCache)? { didSet { hasKernel = kernel != nil } }
    private(set) var hasKernel = false
    /// No watch could be added because the user has none left.
    var isFull = false
  }

  private let watch: ChangeWatch?
  private let remoteMounts: RemoteMounts
  private let limit: Int
  private let state = Guarded(State())

  /// - Parameter watch: reports changes in the backing tree; without it the kernel may cache nothing.
  init(watch: ChangeWatch?, remoteMounts: RemoteMounts) {
    self.watch = watch
    self.remoteMounts = remoteMounts
    // With inotify at most half of the watches that a user may have, and always no more than about 64 MiB of kernel memory.
    let most = 65_536
    limit = watch?.tellsWho ?? false ? most : min((ChangeWatch.limit("max_user_watches") ?? 8192) / 2, most)
  }

  /// The kernel's caches. Nothing may be cached before they can be invalidated.
  var kernel: (any KernelCache)? {
    get { state.withLock { $0.kernel } }
    set { state.withLock { $0.kernel = newValue } }
  }

  /// A lease of a directory, which is watched from then on if it was not before.
  ///
  /// - Returns: nil when the kernel may cache nothing of the directory.
  func lease(_ id: NodeID, _ handle: DirectoryHandle) -> CacheLease? {
    guard let watch else { return nil }
    let (known, mayAdd) = state.withLock { state -> (CachedDirectory?, Bool) in
      guard state.hasKernel else { return (nil, false) }
      let known = state.directories.use(id)?.directory
      return (known, known == nil)
    }
    if let known { return CacheLease(known) }
    guard mayAdd, !remoteMounts.contain(handle.identity.device) else { return nil }
    let new = CachedDirectory(node: id)
    let registration: ChangeWatch.Registration
    do throws(Errno) {
      registration = try watch.watch(handle.directory, hearsEchoes: false) { [weak self] change in
        if new.note(change) { self?.announce(new) }
      }
    } catch {
      if error == .noSpace {
        // The change loop drops some watched directories, if there are any.
        let isFirst = state.withLock { state in
          guard !state.isFull, state.directories.count > 0 else { return false }
          state.isFull = true
          return true
        }
        if isFirst { watch.wake() }
      }
      return nil
    }
    let other = state.withLock { state -> CachedDirectory? in
      if let other = state.directories[id]?.directory { return other }
      _ = state.directories.insert((new, registration), for: id)
      return nil
    }
    return CacheLease(other ?? new)
  }

  /// A directory that is already watched; nil otherwise.
  func directory(_ id: NodeID) -> CachedDirectory? { state.withLock { $0.directories[id]?.directory } }

  /// A lease of a directory that is already watched; nil otherwise.
  func lease(_ id: NodeID) -> CacheLease? { directory(id).map { CacheLease($0) } }

  /// Runs a change of directories through the mount. With fanotify the watch does not report the events that the change itself
  /// causes: the code that makes the change calls `noteOwnChange`.
  func unheard<R: ~Copyable>(
    _ echoes: (directory: NodeID, kind: ChangeWatch.Echo.Kind, name: UnsafePointer<CChar>)...,
    body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    guard let watch else { return try body() }
    let awaited = echoes.compactMap { echo -> ChangeWatch.Echo? in
      // A file whose name begins with a period may decide how other entries are shown: its event is needed.
      guard echo.name[0] != 0x2e,
        let registration = state.withLock({ $0.directories[echo.directory]?.registration })
      else {
        return nil
      }
      return ChangeWatch.Echo(echo.kind, echo.name, in: registration)
    }
    return awaited.isEmpty ? try body() : try watch.unheard(awaited, body)
  }

  /// Records a change that was made through the mount. Replies to other requests about the directory may be stale.
  func noteOwnChange(in id: NodeID) { directory(id)?.noteOwnChange() }

  /// Records that something was made through the mount under a name. The kernel's negative entry of the name is gone with that.
  func noteMade(_ name: Name, in id: NodeID) { _ = directory(id)?.takeAbsent(name) }

  /// All directories of which the kernel may cache anything.
  var all: [CachedDirectory] { state.withLock { $0.directories.all.map(\.value.directory) } }

  /// Stops watching a directory of which the kernel caches nothing any more.
  ///
  /// - Parameter directory: if not nil, only this one is removed: its node's number may belong to another directory by now.
  /// - Returns: whether a directory was removed.
  @discardableResult
  func remove(_ id: NodeID, ifStill directory: CachedDirectory? = nil) -> Bool {
    let removed = state.withLock { state in
      directory == nil || state.directories[id]?.directory === directory
        ? state.directories.remove(id) : nil
    }
    return removed != nil
  }

  /// Stops watching the least recently used quarter of the directories if there are too many.
  ///
  /// - Returns: the directories of which the kernel must cache nothing any more.
  func removeSurplus() -> [CachedDirectory] {
    let surplus = state.withLock { state -> [(id: NodeID, value: Watched)] in
      guard state.isFull || state.directories.count > limit else { return [] }
      state.isFull = false
      return state.directories.removeOldest((state.directories.count + 3) / 4)
    }
    return surplus.map(\.value.directory)
  }

  fileprivate func announce(_ directory: CachedDirectory) {
    let isFirst = state.withLock { state in
      state.news.append(directory)
      return state.news.count == 1
    }
    if isFirst { watch?.wake() }
  }

  /// Removes and returns the directories with pending changes.
  func takeNews() -> [CachedDirectory] {
    state.withLock { state in
      defer { state.news = [] }
      return state.news
    }
  }
}
