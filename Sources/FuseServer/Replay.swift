import BackingTree
import CFuse
import DisplayNames
import Glibc
import Logging
import SystemPackage
import View

/// Makes the kernel tell programs that watch the mount of what changed behind it.
///
/// The FUSE protocol has no message for that. So a thread of the daemon does through the mount what was done behind it:
/// it makes, removes and renames, and the kernel tells of it. The requests that this thread causes are answered from
/// what already is (`ReplayAnswers`) and change nothing.
///
/// The thread may wait for locks that programs hold while their requests are served; no request ever waits for the
/// thread.
final class Replay: @unchecked Sendable {
  private struct Queue {
    var changes: [ViewChange] = []
    /// Directories in which more changed than is told one by one.
    var crowded: Set<NodeID> = []
    var hasEnded = false
  }

  /// More changes than this are not told one by one: their directories are told to have changed.
  private static let limit = 1024

  let answers: ReplayAnswers
  private let view: View
  private let mountPoint: FilePath
  private let notices: Notices
  private let queue = Guarded(Queue())
  private let wake = Semaphore()
  /// The file system that the mount is, once it has been seen.
  private var device: UInt64?

  init(view: View, mountPoint: FilePath, notices: Notices) {
    self.notices = notices
    self.view = view
    self.mountPoint = mountPoint
    answers = ReplayAnswers(view: view)
  }

  /// Has changes told, soon.
  func add(_ changes: [ViewChange]) {
    queue.withLock { queue in
      for change in changes {
        if queue.changes.count < Self.limit {
          queue.changes.append(change)
        } else {
          queue.crowded.formUnion(change.directories)
        }
      }
    }
    wake.post()
  }

  func end() {
    queue.withLock { $0.hasEnded = true }
    wake.post()
  }

  /// Works until `end`. What is under way when the mount goes away fails, and that ends it too.
  func run() {
    answers.thread.store(Thread.current, ordering: .releasing)
    while true {
      wake.wait()
      let (changes, crowded) = queue.withLock { queue in
        defer {
          queue.changes = []
          queue.crowded = []
        }
        return (queue.changes, queue.crowded)
      }
      if hasEnded { return }
      // For a moment only: whoever unmounts is not to find the mount busy.
      guard !changes.isEmpty, let root = openMount() else { continue }
      guard isRecognized(root) else {
        view.logger.notice("programs that watch the mount are not told of changes in the backing tree")
        return
      }
      let directory = Directory(descriptor: root.rawValue)
      for change in changes where !hasEnded { perform(change, below: directory) }
      for crowded in crowded where !hasEnded { touch(crowded, below: directory) }
    }
  }

  private var hasEnded: Bool { queue.withLock { $0.hasEnded } }

  private func openMount() -> Descriptor? {
    let opened = mountPoint.withPlatformString { dfs_open_mount($0) }
    guard opened >= 0 else { return nil }
    let root = Descriptor(adopting: opened)
    // Something else may lie over the mount by now.
    guard let status = try? fileStatus(root.rawValue), device == nil || device == UInt64(status.st_dev),
      status.st_ino == view.rootInode
    else { return nil }
    device = UInt64(status.st_dev)
    return root
  }

  /// Whether the daemon knows this thread's requests from those of others; if it did not, they would change files.
  private func isRecognized(_ root: borrowing Descriptor) -> Bool {
    if answers.isRecognized { return true }
    answers.step = .greeting
    defer { answers.step = .nothing }
    _ = Directory(descriptor: root.rawValue).has(".displayfs-replay")
    return answers.isRecognized
  }

  // MARK: What is done

  private func perform(_ change: ViewChange, below root: Directory) {
    switch change {
    case .appeared(let item): appear(item, below: root)
    case .vanished(let item): vanish(item, below: root)
    case .renamed(let old, let new): rename(old, new, below: root)
    case .written(let item): write(item, below: root)
    case .attributes(let item): touch(item, below: root)
    }
  }

  /// Does something to an entry's name in its directory, which is answered as a step.
  private func act(
    _ item: ListedItem, _ step: ReplayAnswers.Step, below root: Directory,
    _ body: (Directory, UnsafePointer<CChar>) throws(Errno) -> Void
  ) throws(Errno) {
    let directory = try open(item.directory, below: root)
    answers.step = step
    defer { answers.step = .nothing }
    // What the kernel answers by itself would be taken for what is done. Who touches does it to what is there.
    if case .touching = step {} else { notices.expireNow(item.name, in: item.directory) }
    try item.name.bytes.withCName { (name) throws(Errno) in
      try body(Directory(descriptor: directory.rawValue), name)
    }
  }

  private func appear(_ item: ListedItem, below root: Directory) {
    // What cannot be told is seen by whoever looks.
    try? act(item, .appearing(item), below: root) { (directory, name) throws(Errno) in
      switch item.type {
      case .directory: try directory.makeDirectory(name, mode: 0o700)
      case .symlink: try directory.makeSymlink(name, to: ".")
      default: try directory.makeNode(name, mode: item.type.modeBits | 0o600, device: 0)
      }
    }
  }

  private func vanish(_ item: ListedItem, below root: Directory) {
    try? act(item, .vanishing(item), below: root) { (directory, name) throws(Errno) in
      if item.type == .directory { try directory.removeDirectory(name) } else { try directory.unlink(name) }
    }
  }

  private func rename(_ old: ListedItem, _ new: ListedItem, below root: Directory) {
    do throws(Errno) {
      let target = try open(new.directory, below: root)
      try act(old, .renaming(from: old, to: new), below: root) { (directory, name) throws(Errno) in
        notices.expireNow(new.name, in: new.directory)
        try new.name.bytes.withCName { (newName) throws(Errno) in
          try directory.rename(name, to: Directory(descriptor: target.rawValue), newName)
        }
      }
    } catch {
      // One of the directories is nowhere to be seen, or the entry has moved on.
      vanish(old, below: root)
      appear(new, below: root)
    }
  }

  private func write(_ item: ListedItem, below root: Directory) {
    if item.type == .regular, item.facet == .plain {
      try? act(item, .touching, below: root) { (directory, name) throws(Errno) in
        _ = try directory.open(name, O_WRONLY | O_NONBLOCK)
      }
    }
    // glib believes in no change of content that was not announced by one before the file was closed.
    touch(item, below: root)
  }

  private func touch(_ item: ListedItem, below root: Directory) {
    try? act(item, .touching, below: root) { (directory, name) throws(Errno) in
      try systemCall { utimensat(directory.descriptor, name, nil, AT_SYMLINK_NOFOLLOW) }
    }
  }

  /// Tells of a directory that it changed, without saying what.
  private func touch(_ directory: NodeID, below root: Directory) {
    guard let opened = try? open(directory, below: root) else { return }
    answers.step = .touching
    defer { answers.step = .nothing }
    _ = try? systemCall { utimensat(AT_FDCWD, "/proc/self/fd/\(opened.rawValue)", nil, 0) }
  }

  private func open(_ directory: NodeID, below root: Directory) throws(Errno) -> Descriptor {
    guard let path = view.path(of: directory) else { throw .noSuchFileOrDirectory }
    return try (path.isEmpty ? [0x2e] : path).withCName { (path) throws(Errno) in
      try root.openBeneath(path, dfs_O_PATH | O_DIRECTORY)
    }
  }
}

extension ViewChange {
  /// Where something became different.
  var directories: [NodeID] {
    switch self {
    case .appeared(let item), .vanished(let item), .written(let item), .attributes(let item):
      [item.directory]
    case .renamed(let old, let new): [old.directory, new.directory]
    }
  }
}
