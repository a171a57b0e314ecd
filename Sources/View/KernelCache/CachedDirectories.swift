import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The directories of which the kernel may cache entries and attributes. Each is watched.
final class CachedDirectories: Sendable {
  private struct State {
    var directories = RecentlyUsed<WatchedDirectory>()
    var kernel: (any KernelCacheInvalidator)? { didSet { hasKernel = kernel != nil } }
    private(set) var hasKernel = false
    /// No watch could be added because the user has none left.
    var isFull = false
  }

  private let watch: ChangeWatch?
  private let remoteMounts: RemoteMounts
  /// Its views refer to this object, so this reference must not keep them. The `View` has both.
  private unowned let views: DirectoryViewCache
  private let queue: ChangeQueue
  private let limit: Int
  private let state = Guarded(State())

  /// - Parameters:
  ///   - watch: reports changes in the backing tree; without it the kernel may cache nothing.
  ///   - queue: receives the directories that have pending changes.
  init(watch: ChangeWatch?, remoteMounts: RemoteMounts, views: DirectoryViewCache, queue: ChangeQueue) {
    self.watch = watch
    self.remoteMounts = remoteMounts
    self.views = views
    self.queue = queue
    // At most half of the inotify watches that a user may have, and always no more than about 64 MiB of kernel memory.
    let most = 65_536
    limit =
      watch?.isUnlimited ?? false
      ? most : min((ChangeWatch.limit("inotify/max_user_watches") ?? 8192) / 2, most)
  }

  /// The kernel's caches. Nothing may be cached before they can be invalidated.
  var kernel: (any KernelCacheInvalidator)? {
    get { state.withLock { $0.kernel } }
    set { state.withLock { $0.kernel = newValue } }
  }

  // MARK: Watching

  /// The version of a directory, which is watched from then on if it was not before.
  ///
  /// - Returns: nil when the kernel may cache nothing of the directory.
  func version(_ id: NodeID, _ handle: DirectoryHandle) -> DirectoryVersion? {
    let (known, mayAdd) = state.withLock { state -> (WatchedDirectory?, Bool) in
      guard state.hasKernel else { return (nil, false) }
      return (state.directories.use(id), true)
    }
    if let known, known.identity == handle.identity { return DirectoryVersion(known) }
    guard mayAdd, let new = try? watched(id, handle) else { return nil }
    return DirectoryVersion(new)
  }

  /// A directory that is watched from then on if it was not before. If there is a kernel to cache anything, it is kept.
  ///
  /// - Returns: nil when the directory must not be watched.
  /// - Throws: ENOSPC when the user has no watch left.
  func watched(_ id: NodeID, _ handle: DirectoryHandle) throws(Errno) -> WatchedDirectory? {
    guard let watch, !remoteMounts.contains(handle.identity.device) else { return nil }
    // The node's number may have been that of another directory.
    func isSame(_ directory: WatchedDirectory) -> Bool {
      directory.subscription != nil && directory.identity == handle.identity
    }
    if let known = directory(id), isSame(known) { return known }
    let new: WatchedDirectory
    if let viewed = views.view(of: id)?.watched, isSame(viewed) {
      // It was removed from here, but its view keeps it watched.
      new = viewed
    } else {
      do throws(Errno) { new = try WatchedDirectory(id, handle, by: watch, queue: queue) } catch {
        if error == .noSpace { noteFull(watch) }
        throw error
      }
    }
    let (kept, replaced) = state.withLock { state -> (WatchedDirectory, WatchedDirectory?) in
      guard state.hasKernel else { return (new, nil) }
      if let other = state.directories[id], isSame(other) { return (other, nil) }
      let replaced = state.directories.insert(new, for: id)
      replaced?.changes.setCached(false)
      new.changes.setCached(true)
      return (new, replaced)
    }
    // A watch ends with its directory, never under a lock.
    withExtendedLifetime(replaced) {}
    return kept
  }

  /// Has the change loop drop some directories, if there are any.
  private func noteFull(_ watch: ChangeWatch) {
    let isFirst = state.withLock { state in
      guard !state.isFull, state.directories.count > 0 else { return false }
      state.isFull = true
      return true
    }
    if isFirst { watch.wake() }
  }

  /// A directory that is already watched; nil otherwise.
  func directory(_ id: NodeID) -> WatchedDirectory? { state.withLock { $0.directories[id] } }

  /// The version of a directory that is already watched; nil otherwise.
  func version(_ id: NodeID) -> DirectoryVersion? { directory(id).map { DirectoryVersion($0) } }

  /// All directories of which the kernel may cache anything.
  var all: [WatchedDirectory] { state.withLock { $0.directories.all.map(\.value) } }

  /// Removes a directory of which the kernel caches nothing any more. It is watched for as long as it has a view.
  ///
  /// - Parameter directory: if not nil, only this one is removed: its node's number may belong to another directory by now.
  /// - Returns: whether a directory was removed.
  @discardableResult
  func remove(_ id: NodeID, ifStill directory: WatchedDirectory? = nil) -> Bool {
    let removed = state.withLock { state -> WatchedDirectory? in
      guard directory == nil || state.directories[id] === directory else { return nil }
      let removed = state.directories.remove(id)
      removed?.changes.setCached(false)
      return removed
    }
    return removed != nil
  }

  /// Removes the least recently used quarter of the directories if there are too many.
  ///
  /// - Returns: the directories of which the kernel must cache nothing any more.
  func removeSurplus() -> [WatchedDirectory] {
    state.withLock { state in
      guard state.isFull || state.directories.count > limit else { return [] }
      state.isFull = false
      let surplus = state.directories.removeOldest((state.directories.count + 3) / 4)
      for directory in surplus { directory.changes.setCached(false) }
      return surplus
    }
  }

  // MARK: Changes through the mount

  /// Runs a change of directories through the mount. The watch does not report the events that the change itself causes: the code
  /// that makes the change calls `noteOwnChange`.
  func suppressingSelfEvents<R: ~Copyable>(
    _ first: ExpectedEvent, _ second: ExpectedEvent? = nil, body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    guard let watch else { return try body() }
    return try watch.suppressingSelfEvents(selfEvent(first), second.flatMap(selfEvent), body)
  }

  typealias ExpectedEvent = (
    directory: NodeID, kind: ChangeWatch.SelfEvent.Kind, name: UnsafePointer<CChar>
  )

  private func selfEvent(_ expected: ExpectedEvent) -> ChangeWatch.SelfEvent? {
    // A file whose name begins with a period may decide how other entries are shown: its event is needed.
    guard expected.name[0] != 0x2e, let subscription = directory(expected.directory)?.subscription else {
      return nil
    }
    return ChangeWatch.SelfEvent(expected.kind, expected.name, in: subscription)
  }

  /// Records a change that was made through the mount. Replies to other requests about the directory may be stale.
  func noteOwnChange(in id: NodeID) { directory(id)?.changes.noteOwnChange() }

  /// Records that something was made through the mount under a name. The kernel's negative entry of the name is gone with that.
  func noteMade(_ name: Name, in id: NodeID) { directory(id)?.removeNegativeEntry(name) }
}
