import BackingTree
import Glibc

/// A file that a program has open: its own backing descriptor, so that renames and unlinks do not touch it.
public final class OpenFile: Sendable {
  public let descriptor: Descriptor
  public let node: NodeID
  /// Whether it was opened for writing.
  let mayWrite: Bool

  init(descriptor: consuming Descriptor, node: NodeID, flags: CInt) {
    self.descriptor = descriptor
    self.node = node
    mayWrite = flags & O_ACCMODE != O_RDONLY
  }
}

/// Which nodes are open, and through which descriptors: a file whose name is gone is still reached through them.
final class OpenNodes: Sendable {
  private let files = Guarded<[NodeID: [OpenFile]]>([:])

  func opened(_ file: OpenFile) { files.withLock { $0[file.node, default: []].append(file) } }

  func closed(_ file: OpenFile) {
    files.withLock { files in
      guard var list = files[file.node], let index = list.firstIndex(where: { $0 === file }) else { return }
      list.remove(at: index)
      files[file.node] = list.isEmpty ? nil : list
    }
  }

  /// One of the open files of a node.
  func file(of id: NodeID) -> OpenFile? { files.withLock { $0[id]?.last } }
}
