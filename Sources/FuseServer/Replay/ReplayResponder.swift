import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage
import View

/// Serves the requests of a replay thread from the state before or after a change. They change nothing, whatever the operation.
final class ReplayResponder: Sendable {
  /// What the thread is doing.
  enum Step: Sendable {
    case idle
    /// It checks whether the daemon recognizes its requests.
    case probe
    /// It opens a directory by this path. Programs may still watch directories that have been removed.
    case reaching([PathComponent])
    /// It has the kernel move the dentry of a directory to a name that is made for this.
    case settingAside(ListingEntry, as: Name)
    case appearing(ListingEntry)
    case vanishing(ListingEntry)
    /// `yields` says whether the rename gives way to a client that is about to try again.
    case renaming(from: ListingEntry, to: ListingEntry, yields: Bool)
    case touching
  }

  private let view: View
  private let current = Guarded(Step.idle)
  /// The rename of this step, once the daemon has begun to reply to it.
  private let underWay = Guarded<ReplayedRename?>(nil)
  private let recognized = Atomic<Bool>(false)
  /// Whether the kernel has looked up, in this step, the name that is about to be removed or renamed.
  private let wasLookedUp = Atomic<Bool>(false)
  /// A directory of which the dentry was set aside.
  private struct Aside {
    let node: NodeID
    /// The nlookup of the node since then. If a client looks the directory up by its name, it rises, and the dentry is back there.
    let lookups: UInt64
  }
  private let aside = Guarded<Aside?>(nil)

  init(view: View) { self.view = view }

  var step: Step {
    get { current.withLock { $0 } }
    set {
      wasLookedUp.store(false, ordering: .releasing)
      current.withLock { $0 = newValue }
      underWay.discard { $0.take() }
    }
  }

  /// Whether a request of the thread has arrived and was recognized.
  var isRecognized: Bool { recognized.load(ordering: .acquiring) }

  func lookup(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    switch step {
    case .probe:
      recognized.store(true, ordering: .releasing)
      throw .noSuchFileOrDirectory
    case .reaching(let path):
      do throws(Errno) { return try view.lookup(parent, name) } catch {
        guard error == .noSuchFileOrDirectory || error == .staleNFSFileHandle,
          let removed = path.first(where: { $0.parent == parent && $0.name.equals(name) })
        else { throw error }
        return try view.entryOfRemovedDirectory(removed.node)
      }
    case .settingAside(let item, let other) where item.directory == parent && other.equals(name):
      let entry = try CName(item.name).withPointer { (name) throws(Errno) in try view.lookup(parent, name) }
      let lookups = view.lookupCount(of: entry.id)
      aside.withLock { $0 = Aside(node: entry.id, lookups: lookups) }
      return entry
    case .appearing(let item) where item.isAt(parent, name):
      if mustStay(item) { break }
      throw .noSuchFileOrDirectory
    case .vanishing(let item) where item.isAt(parent, name):
      if mustStay(item) { break }
      wasLookedUp.store(true, ordering: .releasing)
      return view.entryOfVanished(item)
    case .renaming(let old, let new, _):
      if new.isAt(parent, name) { throw .noSuchFileOrDirectory }
      if old.isAt(parent, name) {
        if mustStay(old, unless: new.identity) { break }
        wasLookedUp.store(true, ordering: .releasing)
        return try view.entryOfMoved(new)
      }
    default: break
    }
    return try view.lookup(parent, name)
  }

  /// Whether the dentry of a directory was set aside in the steps since the last call of `endSettingAside`.
  var isAnySetAside: Bool { aside.withLock { $0 != nil } }

  func endSettingAside() { aside.withLock { $0 = nil } }

  /// Whether the kernel may have a dentry of that name for a directory that is there, because a client has just looked it up.
  /// Another reply than the directory would make the kernel drop the dentry, and detach what is mounted there, and the daemon would
  /// take the name from the node. The kernel has the parent locked for this look-up, so no client looks a name up in it at the same
  /// time.
  ///
  /// - Parameter moved: the directory that the replay moves.
  private func mustStay(_ item: ListingEntry, unless moved: FileIdentity? = nil) -> Bool {
    if let aside = aside.withLock({ $0 }) { return view.lookupCount(of: aside.node) != aside.lookups }
    return view.leadsToKnownDirectory(item.name, in: item.directory, except: moved)
  }

  /// Replies to mknod, mkdir and symlink with the entry that already exists.
  func make(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    guard case .appearing(let item) = step, item.isAt(parent, name) else { throw .ioError }
    let entry = try view.lookup(parent, name)
    // Something else has the name by now. The kernel refuses it, and sends no FORGET.
    guard FileType(mode: entry.attributes.st_mode) == item.type else {
      view.forget(entry.id, count: 1)
      throw .ioError
    }
    return entry
  }

  /// Replies to unlink and rmdir.
  func remove(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    guard case .vanishing(let item) = step, item.isAt(parent, name) else { throw .ioError }
    do throws(Errno) { try refuseCachedDentry() } catch {
      // The kernel would look the name up again, and replace the dentry of a directory that is there still.
      throw mustStay(item) ? .ioError : error
    }
    view.orphanVanished(item)
  }

  /// - Throws: EAGAIN if the rename gives way to a client.
  func rename(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    guard case .renaming(let old, let new, let yields) = step, old.isAt(parent, name) else { throw .ioError }
    try refuseCachedDentry()
    let rename = try view.beginReplayedRename(old, to: new, yields: yields)
    underWay.discard { earlier in
      defer { earlier = rename }
      return earlier.take()
    }
  }

  /// Replies to setattr with the attributes as they are.
  func attributes(_ id: NodeID) throws(Errno) -> stat { try view.attributes(id) }

  /// Replies to getxattr: the kernel reads the access list of each directory on a path.
  func attribute(
    _ id: NodeID, _ name: UnsafePointer<CChar>, into buffer: UnsafeMutableRawBufferPointer
  ) throws(Errno) -> Int {
    try view.getAttribute(id, name, into: buffer, client: .daemon)
  }

  /// Records that this replay reports all changes of a file until now.
  func noteReplayed(_ id: NodeID) { view.noteReplayed(id) }

  /// Fails with ESTALE if the kernel used a cached dentry. A client may have looked the name up after it was expired, when it
  /// already stood for another file: the kernel would give that file the new name. On ESTALE the kernel looks the name up again.
  private func refuseCachedDentry() throws(Errno) {
    guard wasLookedUp.load(ordering: .acquiring) else { throw .staleNFSFileHandle }
  }
}

extension ListingEntry {
  fileprivate func isAt(_ parent: NodeID, _ name: UnsafePointer<CChar>) -> Bool {
    parent == directory && self.name.equals(name)
  }
}

extension Name {
  fileprivate func equals(_ name: UnsafePointer<CChar>) -> Bool {
    bytes.elementsEqual(UnsafeRawBufferPointer(start: name, count: strlen(name)))
  }
}

/// The replay threads, by the thread ID that their requests carry.
final class ReplayThreads: Sendable {
  private let responders = Guarded<[pid_t: ReplayResponder]>([:])
  /// The bit `thread % 64` of each replay thread. Every request passes here, and nearly all of them without the lock.
  private let filter = Atomic<UInt64>(0)

  /// - Returns: the object that serves the requests of the thread.
  func add(_ thread: pid_t, _ view: View) -> ReplayResponder {
    let new = ReplayResponder(view: view)
    change { $0[thread] = new }
    return new
  }

  func remove(_ thread: pid_t) { change { $0[thread] = nil } }

  private func change(_ body: (inout [pid_t: ReplayResponder]) -> Void) {
    responders.withLock { responders in
      body(&responders)
      filter.store(responders.keys.reduce(0) { $0 | Self.bit($1) }, ordering: .releasing)
    }
  }

  private static func bit(_ thread: pid_t) -> UInt64 { 1 << UInt64(UInt32(bitPattern: thread) % 64) }

  /// The object that serves the requests of a thread; nil if it is not a replay thread.
  subscript(_ thread: pid_t) -> ReplayResponder? {
    guard filter.load(ordering: .acquiring) & Self.bit(thread) != 0 else { return nil }
    return responders.withLock { $0[thread] }
  }
}
