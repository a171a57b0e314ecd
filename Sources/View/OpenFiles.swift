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

  /// - Parameters:
  ///   - mode: the file's, when it was opened.
  ///   - isHeardOfWhenClosed: for a file that is opened for writing.
  init(
    descriptor: consuming Descriptor, node: NodeID, flags: CInt, mode: mode_t, isHeardOfWhenClosed: Bool
  ) {
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
  private let files = Guarded<[NodeID: [OpenFile]]>([:])

  func opened(_ file: OpenFile) { files.withLock { $0[file.node, default: []].append(file) } }

  func closed(_ file: OpenFile) {
    files.withLock { files in
      guard let index = files.index(forKey: file.node) else { return }
      files.values[index].removeAll { $0 === file }
      if files.values[index].isEmpty { files.remove(at: index) }
    }
  }

  func isBeingWritten(_ id: NodeID) -> Bool {
    files.withLock { $0[id]?.contains(where: \.mayWrite) ?? false }
  }

  /// One of the open files of a node.
  func file(of id: NodeID) -> OpenFile? { files.withLock { $0[id]?.last } }
}
