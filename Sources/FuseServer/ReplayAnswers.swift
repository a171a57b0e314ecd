import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage
import View

/// How the requests of the replaying thread are answered: from what already is, or was. They change nothing, whatever
/// they ask for.
final class ReplayAnswers: Sendable {
  /// What the thread is doing.
  enum Step: Sendable {
    case nothing
    /// It finds out whether its requests are known.
    case greeting
    case appearing(ListedItem)
    case vanishing(ListedItem)
    case renaming(from: ListedItem, to: ListedItem)
    case touching
  }

  private let view: View
  private let current = Guarded(Step.nothing)
  private let recognized = Atomic<Bool>(false)
  /// Whether the kernel has asked, in this step, what the name stands for that is to go.
  private let wasAsked = Atomic<Bool>(false)

  init(view: View) { self.view = view }

  var step: Step {
    get { current.withLock { $0 } }
    set {
      wasAsked.store(false, ordering: .releasing)
      current.withLock { $0 = newValue }
    }
  }

  /// Whether a request of the thread has come and was known for one.
  var isRecognized: Bool { recognized.load(ordering: .acquiring) }

  func lookup(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    switch step {
    case .greeting:
      recognized.store(true, ordering: .releasing)
      throw .noSuchFileOrDirectory
    case .appearing(let item) where item.isAt(parent, name): throw .noSuchFileOrDirectory
    case .vanishing(let item) where item.isAt(parent, name):
      wasAsked.store(true, ordering: .releasing)
      return view.entryOfVanished(item)
    case .renaming(let old, let new):
      if new.isAt(parent, name) { throw .noSuchFileOrDirectory }
      if old.isAt(parent, name) {
        wasAsked.store(true, ordering: .releasing)
        return try view.entryOfMoved(new)
      }
    default: break
    }
    return try view.lookup(parent, name)
  }

  /// Something was made, and is what there is. (mknod, mkdir, symlink)
  func make(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    guard case .appearing(let item) = step, item.isAt(parent, name) else { throw .ioError }
    return try view.lookup(parent, name)
  }

  /// (unlink, rmdir)
  func remove(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    guard case .vanishing(let item) = step, item.isAt(parent, name) else { throw .ioError }
    try refuseWhatIsKept()
    view.forgetVanished(item)
  }

  func rename(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) {
    guard case .renaming(let old, let new) = step, old.isAt(parent, name) else { throw .ioError }
    try refuseWhatIsKept()
    view.noteMoved(old, to: new)
  }

  /// A program may have looked the name up since it was expired, when it stood for something else already: the kernel would
  /// give that file the new name. It asks again when it is told that what it keeps is stale.
  private func refuseWhatIsKept() throws(Errno) {
    guard wasAsked.load(ordering: .acquiring) else { throw .staleNFSFileHandle }
  }
}

/// What the replaying thread has open: nothing.
final class ReplayedOpen {
  let node: NodeID
  /// Whether it counts among the opens that the kernel serves.
  let isPassedThrough: Bool

  init(_ node: NodeID, isPassedThrough: Bool) {
    self.node = node
    self.isPassedThrough = isPassedThrough
  }
}

extension ListedItem {
  fileprivate func isAt(_ parent: NodeID, _ name: UnsafePointer<CChar>) -> Bool {
    parent == directory
      && self.name.bytes.elementsEqual(UnsafeRawBufferPointer(start: name, count: strlen(name)))
  }
}

/// The threads that replay changes, as requests name them.
final class ReplayThreads: Sendable {
  private let answers = Guarded<[pid_t: ReplayAnswers]>([:])

  /// - Returns: what answers the requests of a thread.
  func add(_ thread: pid_t, _ view: View) -> ReplayAnswers {
    let new = ReplayAnswers(view: view)
    answers.withLock { $0[thread] = new }
    return new
  }

  func remove(_ thread: pid_t) { answers.withLock { $0[thread] = nil } }

  /// What answers a request of that thread, if it is one that replays a change.
  subscript(_ thread: pid_t) -> ReplayAnswers? { answers.withLock { $0[thread] } }
}
