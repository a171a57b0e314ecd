import BackingTree
import CFuse
import Glibc

/// A file that a program has open: its own backing descriptor, so that renames and unlinks do not touch it.
public final class OpenFile: Sendable {
  public let descriptor: Descriptor
  public let node: NodeID
  /// Whether it was opened for writing.
  public let mayWrite: Bool
  /// Whether writing to it may have to take a set-user-ID or set-group-ID bit away, which depends on who writes.
  public let isSetID: Bool
  /// Whether something has to be done before a close of it returns.
  public let isHeardOfWhenClosed: Bool

  /// The thread that opened it; 0 where the daemon cannot see it.
  let thread: pid_t

  /// - Parameters:
  ///   - mode: the file's, when it was opened.
  ///   - isHeardOfWhenClosed: for a file that is opened for writing.
  init(
    descriptor: consuming Descriptor, node: NodeID, flags: CInt, mode: mode_t, isHeardOfWhenClosed: Bool,
    thread: pid_t
  ) {
    self.thread = thread
    self.descriptor = descriptor
    self.node = node
    mayWrite = flags & O_ACCMODE != O_RDONLY
    self.isHeardOfWhenClosed = mayWrite && isHeardOfWhenClosed
    isSetID = mode & (S_ISUID | S_ISGID) != 0
    DescriptorLimit.given(self.descriptor.rawValue)
  }

  /// Its data will pass through the daemon, whose buffers are not aligned as O_DIRECT wants them: the kernel keeps the
  /// caller's side of it.
  public func readAndWriteBuffered() {
    let flags = fcntl(descriptor.rawValue, F_GETFL)
    if flags & dfs_O_DIRECT != 0 { _ = fcntl(descriptor.rawValue, F_SETFL, flags & ~dfs_O_DIRECT) }
  }
}

/// Which nodes are open, and through which descriptors: a file whose name is gone is still reached through them.
final class OpenNodes: Sendable {
  private struct State {
    var files: [NodeID: [OpenFile]] = [:]
    /// Those of which nobody hears that they are written to.
    var unheard: Set<NodeID> = []
  }

  private let watch: ChangeWatch?
  private let state = Guarded(State())

  init(watch: ChangeWatch?) { self.watch = watch }

  func opened(_ file: OpenFile) { state.withLock { $0.files[file.node, default: []].append(file) } }

  func closed(_ file: OpenFile) {
    state.withLock { state in
      guard let index = state.files.index(forKey: file.node) else { return }
      state.files.values[index].removeAll { $0 === file }
      let rest = state.files.values[index]
      if file.mayWrite, state.unheard.contains(file.node), !rest.contains(where: \.mayWrite) {
        watch?.hearModifications(of: file.descriptor)
        state.unheard.remove(file.node)
      }
      if rest.isEmpty { state.files.remove(at: index) }
    }
  }

  func isBeingWritten(_ id: NodeID) -> Bool {
    state.withLock { $0.files[id]?.contains(where: \.mayWrite) ?? false }
  }

  /// One of the open files of a node.
  func file(of id: NodeID) -> OpenFile? { state.withLock { $0.files[id]?.last } }

  /// Whether the process of a client has opened a node.
  func isOpen(_ id: NodeID, in caller: Caller) -> Bool {
    let threads = state.withLock { Set($0.files[id]?.map(\.thread) ?? []) }
    if threads.isEmpty || threads.contains(caller.process) { return !threads.isEmpty }
    let process = caller.threadGroup
    return process != 0
      && threads.contains { Caller(user: 0, group: 0, process: $0, umask: 0).threadGroup == process }
  }

  /// A node was written to. If that was, or can be, through the mount, nobody hears of it any more until it is closed: the
  /// kernel knows by itself, and to be told of each write takes it as long as the write.
  func ignoreModifications(of id: NodeID) {
    state.withLock { state in
      guard !state.unheard.contains(id), let writer = state.files[id]?.first(where: \.mayWrite),
        watch?.ignoreModifications(of: writer.descriptor) ?? false
      else { return }
      state.unheard.insert(id)
    }
  }

  /// Whether others may write to a node without that it is heard of: its attributes must be asked for each time.
  func isUnheard(_ id: NodeID) -> Bool { state.withLock { $0.unheard.contains(id) } }
}
