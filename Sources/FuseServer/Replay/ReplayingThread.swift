import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage
import View

/// Replays changes on one replay thread.
struct ReplayingThread {
  let view: View
  let notifier: KernelNotifier
  let responder: ReplayResponder
  let root: Directory
  /// Where the directory of the change was when the change was reported. It may have been removed since.
  var recordedPath: [PathComponent]?

  private static let probe = Name(".displayfs-replay")
  /// How often a rename gives way to clients, and the microseconds between: half a second in all, so that a client that is
  /// refused again and again does not keep others from being notified.
  private static let (attempts, pause): (Int, UInt32) = (100, 5_000)
  /// How often a change is tried, because a client looks the name up again and again.
  private static let lookups = 32

  /// Whether the daemon recognizes the requests of this thread. If it did not, they would change files.
  func isRecognized() -> Bool {
    if responder.isRecognized { return true }
    responder.step = .probe
    defer { responder.step = .idle }
    // A client may have looked this name up, and the kernel may hold a negative entry for it.
    notifier.expireDentryNow(Self.probe, in: NodeTable.root)
    _ = Self.probe.bytes.withCName { root.has($0) }
    return responder.isRecognized
  }

  // MARK: Steps

  func perform(_ change: ViewChange) {
    switch change {
    case .appeared(let item): appear(item)
    case .vanished(let item): vanish(item)
    case .renamed(let old, let new): rename(old, new)
    case .written(let item): write(item)
    case .attributes(let item): touch(item)
    }
  }

  /// Runs an operation on an entry's name in its directory. `step` determines the replies to its requests.
  private func runStep(
    _ item: ListingEntry, _ step: ReplayResponder.Step,
    _ body: (Directory, UnsafePointer<CChar>) throws(Errno) -> Void
  ) throws(Errno) {
    let directory = try open(item.directory)
    responder.step = step
    defer { responder.step = .idle }
    // Expire the dentry, so that the kernel sends a LOOKUP. Otherwise it would operate on the cached dentry, whatever that stands
    // for. A touch operates on the entry that is there.
    switch step {
    case .touching, .settingAside: break
    // A client that has looked a directory up in the meantime has its dentry there.
    default: if !responder.isAnySetAside { notifier.expireDentryNow(item.name, in: item.directory) }
    }
    try item.name.bytes.withCName { (name) throws(Errno) in
      try body(Directory(descriptor: directory.rawValue), name)
    }
  }

  private func appear(_ item: ListingEntry) {
    do throws(Errno) {
      try withNameFree(item, needsEntry: false) { () throws(Errno) in try make(item) }
    } catch {
      // It may be gone again.
      if error != .noSuchFileOrDirectory { touch(item.directory) }
    }
  }

  private func make(_ item: ListingEntry) throws(Errno) {
    try runStep(item, .appearing(item)) { (directory, name) throws(Errno) in
      switch item.type {
      case .directory: try directory.makeDirectory(name, mode: 0o700)
      case .symlink: try directory.makeSymlink(name, to: ".")
      default: try directory.makeNode(name, mode: item.type.modeBits | 0o600, device: 0)
      }
    }
  }

  private func vanish(_ item: ListingEntry) {
    if item.type == .directory, view.leadsToKnownDirectory(item.realName, in: item.directory) {
      // The dentry goes to the real name, which still leads there.
      if item.name != item.realName { lookUp(item.realName, in: item) }
    } else if let name = view.currentRealName(of: item) {
      // The dentry follows, with the programs that work there and what is mounted there.
      lookUp(name, in: item)
    }
    do throws(Errno) { try withNameFree(item) { () throws(Errno) in try remove(item) } } catch {
      touch(item.directory)
    }
  }

  private func remove(_ item: ListingEntry) throws(Errno) {
    try runStep(item, .vanishing(item)) { (directory, name) throws(Errno) in
      if item.type == .directory { try directory.removeDirectory(name) } else { try directory.unlink(name) }
    }
  }

  /// Runs `body`, which replays a change of a name, and again while the directory is set aside if the kernel knows one by that
  /// name. A reply that it is not there, or its removal, would make the kernel detach whatever is mounted there, and getcwd(2)
  /// would fail for processes that work there: the responder refuses that.
  ///
  /// - Parameters:
  ///   - moved: the directory that the replay moves, which may be there.
  ///   - needsEntry: whether the kernel must look the name up. ENOENT then means that it had a negative entry, because a client has
  ///     looked the name up.
  /// - Throws: the error of the last attempt.
  private func withNameFree(
    _ item: ListingEntry, except moved: FileIdentity? = nil, needsEntry: Bool = true,
    _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    var isSetAside = false
    for left in (0..<Self.lookups).reversed() {
      do throws(Errno) { return try isSetAside ? withSetAside(item, body) : body() } catch {
        if left == 0 || error == .resourceTemporarilyUnavailable { throw error }
        // Before Linux 6.14, the kernel looks up the name that the dentry has, for a client that found it by another one: no
        // directory is set aside.
        isSetAside =
          view.areLookupNamesStable
          && view.leadsToKnownDirectory(item.name, in: item.directory, except: moved)
        let isNegative = error == .noSuchFileOrDirectory && needsEntry
        guard isSetAside || isNegative else { throw error }
      }
    }
  }

  /// Runs `body` while the dentry of a directory, which stays there, is under another name. The kernel moves it, and notifies no
  /// program, when a look-up of that name yields the directory (`d_splice_alias`), and moves it back when its own name is looked
  /// up. For that instant, getcwd(2) shows the other name.
  private func withSetAside(_ item: ListingEntry, _ body: () throws(Errno) -> Void) throws(Errno) {
    // A new name each time: of one that a client has looked up, the kernel may have a negative entry.
    let other = Name(".displayfs-\(UInt64.random(in: .min ... .max))")
    var isThere = false
    try runStep(item, .settingAside(item, as: other)) { (directory, _) throws(Errno) in
      isThere = other.bytes.withCName { directory.has($0) }
    }
    defer {
      responder.endSettingAside()
      lookUp(item.name, in: item)
    }
    guard isThere, responder.isAnySetAside else { throw .staleNFSFileHandle }
    try body()
  }

  /// Has the kernel move the dentry of a directory to a name that leads there, in the directory of an entry.
  private func lookUp(_ name: Name, in item: ListingEntry) {
    try? runStep(item, .touching) { (directory, _) throws(Errno) in
      _ = name.bytes.withCName { directory.has($0) }
    }
  }

  private func rename(_ old: ListingEntry, _ new: ListingEntry) {
    do throws(Errno) {
      let target = try open(new.directory)
      for attempt in 1...Self.attempts {
        do throws(Errno) {
          // A directory that is only shown by another name is at both.
          try withNameFree(old, except: new.identity) { () throws(Errno) in
            try rename(old, to: new, in: target, yields: attempt < Self.attempts)
          }
          // That was the dentry of the file.
          if new.nodeKind == .packageFile, old.realName != new.realName { lookUp(new.realName, in: new) }
          return
        } catch {
          guard error == .resourceTemporarilyUnavailable, attempt < Self.attempts else { throw error }
          usleep(Self.pause)
        }
      }
    } catch {
      // One of the directories has no path in the view, or the entry has moved again.
      vanish(old)
      appear(new)
    }
  }

  /// - Throws: EAGAIN if it gave way to a client that is about to try again.
  private func rename(
    _ old: ListingEntry, to new: ListingEntry, in target: borrowing Descriptor, yields: Bool
  ) throws(Errno) {
    let target = Directory(descriptor: target.rawValue)
    try runStep(old, .renaming(from: old, to: new, yields: yields)) { (directory, name) throws(Errno) in
      notifier.expireDentryNow(new.name, in: new.directory)
      try new.name.bytes.withCName { (newName) throws(Errno) in
        try directory.rename(name, to: target, newName)
      }
    }
  }

  private func write(_ item: ListingEntry) {
    if item.type == .regular, item.nodeKind == .plain {
      try? runStep(item, .touching) { (directory, name) throws(Errno) in
        // The name may have become that of a FIFO.
        _ = try directory.openRegular(name, O_WRONLY)
      }
    }
    // glib ignores a close after writing as a change of content unless a change event preceded it, so an attribute event follows.
    touch(item)
  }

  private func touch(_ item: ListingEntry) {
    try? runStep(item, .touching) { (directory, name) throws(Errno) in
      try systemCall { utimensat(directory.descriptor, name, nil, AT_SYMLINK_NOFOLLOW) }
    }
  }

  /// Reports a directory as changed, without details.
  func touch(_ directory: NodeID) {
    guard let opened = try? open(directory) else { return }
    responder.step = .touching
    defer { responder.step = .idle }
    _ = try? systemCall { utimensat(AT_FDCWD, "/proc/self/fd/\(opened.rawValue)", nil, 0) }
  }

  private func open(_ directory: NodeID) throws(Errno) -> Descriptor {
    guard let path = view.path(to: directory) ?? recordedPath else { throw .noSuchFileOrDirectory }
    responder.step = .reaching(path)
    defer { responder.step = .idle }
    let names = path.isEmpty ? [0x2e] : Array(path.map(\.name.bytes).joined(separator: [0x2f]))
    return try names.withCName { (names) throws(Errno) in
      try root.openBeneath(names, dfs_O_PATH | O_DIRECTORY)
    }
  }
}
