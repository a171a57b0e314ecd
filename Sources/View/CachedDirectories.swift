import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// A directory of which the kernel keeps names and attributes.
public final class CachedDirectory: Sendable {
  let node: NodeID
  /// How many changes were heard of, or made through the mount.
  private let changes = Atomic<UInt64>(0)
  /// How many of the content of what is in it, which say nothing of names nor of the directory itself.
  private let contentChanges = Atomic<UInt64>(0)
  private let news = Guarded(News())

  /// What the backing tree told and nobody has looked at yet.
  struct News: Sendable {
    /// What came, went or was replaced.
    var names: Set<Name> = []
    /// Whose content or attributes changed.
    var contents: Set<Name> = []
    /// The directory's own attributes changed.
    var isItselfChanged = false
    /// Nothing that the kernel keeps of it holds.
    var isEverything = false
    fileprivate var isAnnounced = false
  }

  /// More names than this are not remembered one by one.
  private static let limit = 4096

  /// The negative entries that the kernel may hold.
  private let absent = Guarded<Set<Name>>([])

  /// Names beyond these are not cached as absent: each one that is has to be invalidated by name.
  private static let maximumAbsent = 1024

  fileprivate init(node: NodeID) { self.node = node }

  /// Records that the kernel is about to cache a name as absent. - Returns: false when it must not.
  fileprivate func noteAbsent(_ name: Name) -> Bool {
    absent.withLock { absent in
      if absent.count < Self.maximumAbsent { absent.insert(name) }
      return absent.contains(name)
    }
  }

  /// Whether the kernel may hold a negative entry of that name; forgets that it may.
  func takeAbsent(_ name: Name) -> Bool { absent.withLock { $0.remove(name) != nil } }

  /// All of them.
  func takeAbsent() -> Set<Name> {
    absent.withLock { absent in
      defer { absent = [] }
      return absent
    }
  }

  var hasAbsent: Bool { absent.withLock { !$0.isEmpty } }

  fileprivate var count: UInt64 { changes.load(ordering: .acquiring) }
  fileprivate var contentCount: UInt64 { contentChanges.load(ordering: .acquiring) }

  /// A change was made through the mount.
  fileprivate func noteOwnChange() { changes.add(1, ordering: .releasing) }

  /// - Returns: whether nobody was told yet that there is news.
  fileprivate func note(_ change: ChangeWatch.Change) -> Bool {
    // What it has the daemon write the kernel knows.
    if change.isOwnMereContent { return false }
    // First: who told the kernel something meanwhile finds that it may have been outdated.
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

/// What the kernel was told of a directory, or of something in it, holds for as long as this is not broken.
///
/// It is taken before the look at the backing tree. The change that breaks it may come while the answer is on its way, when
/// a notice would be too early: whoever has answered asks afterwards.
public struct CacheLease: Sendable {
  fileprivate let directory: CachedDirectory
  private var count: UInt64
  private let contentCount: UInt64

  fileprivate init(_ directory: CachedDirectory) {
    self.directory = directory
    count = directory.count
    contentCount = directory.contentCount
  }

  /// For what names stand for.
  public var isBroken: Bool { directory.count != count }

  /// For the attributes of the directory, or of a file in it.
  func isBroken(for node: NodeID) -> Bool {
    isBroken || node != directory.node && directory.contentCount != contentCount
  }

  /// Records that the kernel is about to cache a name as absent. - Returns: false when it must not.
  func noteAbsent(_ name: Name) -> Bool { directory.noteAbsent(name) }

  /// Who holds the lease has changed the directory.
  mutating func noteOwnChange() {
    directory.noteOwnChange()
    count += 1
  }
}

/// The directories of which the kernel keeps names and attributes: each is watched.
final class CachedDirectories: Sendable {
  private typealias Watched = (directory: CachedDirectory, key: ChangeWatch.Key)

  private struct State {
    var directories = RecentlyUsed<Watched>()
    var news: [CachedDirectory] = []
    var kernel: (any KernelCache)? { didSet { hasKernel = kernel != nil } }
    private(set) var hasKernel = false
    /// The user has no watch left.
    var isFull = false
  }

  private let watch: ChangeWatch?
  private let remoteMounts: RemoteMounts
  private let limit: Int
  private let state = Guarded(State())

  /// - Parameter watch: hears of changes in the backing tree; without one nothing may be kept.
  init(watch: ChangeWatch?, remoteMounts: RemoteMounts) {
    self.watch = watch
    self.remoteMounts = remoteMounts
    // Half of the watches that a user may have, and no more than about 64 MiB of the kernel's memory.
    let most = 65_536
    limit = watch?.tellsWho ?? false ? most : min((ChangeWatch.limit("max_user_watches") ?? 8192) / 2, most)
  }

  /// The kernel's caches. Nothing may be cached before they can be invalidated.
  var kernel: (any KernelCache)? {
    get { state.withLock { $0.kernel } }
    set { state.withLock { $0.kernel = newValue } }
  }

  /// What may be said of a directory, watched from now on at the latest, and of what is in it; nil when nothing of it may
  /// be kept.
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
    let key: ChangeWatch.Key
    do throws(Errno) {
      key = try watch.watch(handle.directory, hearsEchoes: false) { [weak self] change in
        if new.note(change) { self?.announce(new) }
      }
    } catch {
      if error == .noSpace {
        // The follower makes room, if there is something to let go.
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
      _ = state.directories.insert((new, key), for: id)
      return nil
    }
    if other != nil { watch.stop(key) }
    return CacheLease(other ?? new)
  }

  /// A directory that is watched already.
  func directory(_ id: NodeID) -> CachedDirectory? { state.withLock { $0.directories[id]?.directory } }

  /// A lease of one.
  func lease(_ id: NodeID) -> CacheLease? { directory(id).map { CacheLease($0) } }

  /// Runs a change of directories whose echoes tell nobody anything, as whoever makes it calls `noteOwnChange`.
  func unheard<R: ~Copyable>(
    _ echoes: (directory: NodeID, kind: ChangeWatch.Echo.Kind, name: UnsafePointer<CChar>)...,
    body: () throws(Errno) -> R
  ) throws(Errno) -> R {
    guard let watch else { return try body() }
    let awaited = echoes.compactMap { echo -> ChangeWatch.Echo? in
      // What begins with a period may say how others are shown.
      guard echo.name[0] != 0x2e, let key = state.withLock({ $0.directories[echo.directory]?.key }) else {
        return nil
      }
      return ChangeWatch.Echo(echo.kind, echo.name, in: key)
    }
    return awaited.isEmpty ? try body() : try watch.unheard(awaited, body)
  }

  /// A directory was changed through the mount. What others were told of it meanwhile may be outdated.
  func noteOwnChange(in id: NodeID) { directory(id)?.noteOwnChange() }

  /// Something was made through the mount by that name, which the kernel knows from that.
  func noteMade(_ name: Name, in id: NodeID) { _ = directory(id)?.takeAbsent(name) }

  /// All directories of which the kernel may cache anything.
  var all: [CachedDirectory] { state.withLock { $0.directories.all.map(\.value.directory) } }

  /// The kernel keeps nothing of a directory any more.
  ///
  /// - Parameter directory: the one that is meant: its node's number may be another's by now.
  /// - Returns: whether it kept anything.
  @discardableResult
  func remove(_ id: NodeID, ifStill directory: CachedDirectory? = nil) -> Bool {
    let removed = state.withLock { state in
      directory == nil || state.directories[id]?.directory === directory
        ? state.directories.remove(id) : nil
    }
    if let removed { watch?.stop(removed.key) }
    return removed != nil
  }

  /// Stops watching the directories that were used least recently where there are too many, a quarter of them at a time.
  ///
  /// - Returns: those of which the kernel must cache nothing any more.
  func removeSurplus() -> [CachedDirectory] {
    let surplus = state.withLock { state -> [(id: NodeID, value: Watched)] in
      guard state.isFull || state.directories.count > limit else { return [] }
      state.isFull = false
      return state.directories.removeOldest((state.directories.count + 3) / 4)
    }
    for removed in surplus { watch?.stop(removed.value.key) }
    return surplus.map(\.value.directory)
  }

  fileprivate func announce(_ directory: CachedDirectory) {
    let isFirst = state.withLock { state in
      state.news.append(directory)
      return state.news.count == 1
    }
    if isFirst { watch?.wake() }
  }

  /// The directories that there is news of.
  func takeNews() -> [CachedDirectory] {
    state.withLock { state in
      defer { state.news = [] }
      return state.news
    }
  }
}
