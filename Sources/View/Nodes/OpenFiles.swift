import BackingTree
import CLinux
import Glibc

/// The user and group with the rights that count when a file's data is written: to blocks that are reserved for root, and with
/// the server of a network file system.
package struct DataCredentials: Equatable, Sendable {
  package let user: uid_t
  package let group: gid_t

  package init(user: uid_t, group: gid_t) {
    self.user = user
    self.group = group
  }

  package static let root = DataCredentials(user: 0, group: 0)

  /// The kernel's overflow ids: no blocks are reserved for this user, and no server knows it.
  package static let nobody = DataCredentials(user: 65534, group: 65534)

  /// A client with these rights. It has no thread, so it has no supplementary groups.
  package func client(umask: mode_t) -> Client { Client(user: user, group: group, thread: 0, umask: umask) }

  /// The credentials with which pages of a shared mapping are written back. The kernel names any file of the node that is open for
  /// writing (`fuse_write_file_get`), and no client. So the rights are those that all openers have.
  ///
  /// - Parameters:
  ///   - named: the opener of the file that the request names.
  ///   - writers: the openers of all files of the node that are open for writing.
  ///   - isOnServer: whether the file system has a server, which may refuse the overflow user.
  package static func ofPages(named: Self, writers: [Self], isOnServer: Bool) -> Self {
    if writers.allSatisfy({ $0 == named }) { return named }
    return isOnServer ? writers.first { $0.user != 0 } ?? named : .nobody
  }
}

/// A file that a client has open. It has a backing descriptor of its own, so renames and unlinks do not affect it.
package final class OpenFile: Sendable {
  package let descriptor: Descriptor
  package let node: NodeID
  /// Whether it was opened for writing.
  package let mayWrite: Bool
  /// Whether a write to the file may have to clear a set-user-ID or set-group-ID bit, which depends on the writer's
  /// credentials.
  package let isSetID: Bool
  /// Whether something has to be done before a close of the file returns, so that the kernel must send FLUSH.
  package let needsFlush: Bool
  package let opener: DataCredentials
  package let fileSystem: FileSystemKind
  /// The size in bytes at the time of the open.
  package let size: Int64
  /// The version of the content at the time of the open; nil where a change of the content may leave the version as it is.
  package let version: ContentVersion?
  private let flags: CInt

  /// The thread that opened the file; 0 where the daemon cannot see the thread.
  let thread: pid_t

  /// - Parameters:
  ///   - status: the file's status at the time of the open.
  ///   - hasReliableVersion: whether each change of the content changes its version.
  ///   - needsFlush: whether the kernel is to send FLUSH; has an effect only for a file that is opened for writing.
  init(
    descriptor: consuming Descriptor, node: NodeID, flags: CInt, status: stat, hasReliableVersion: Bool,
    needsFlush: Bool, fileSystem: FileSystemKind, opener: DataCredentials, thread: pid_t
  ) {
    self.thread = thread
    self.descriptor = descriptor
    self.node = node
    self.flags = flags
    mayWrite = flags & O_ACCMODE != O_RDONLY
    self.needsFlush = mayWrite && needsFlush
    size = Int64(status.st_size)
    version = hasReliableVersion && flags & O_TRUNC == 0 ? ContentVersion(status) : nil
    isSetID = status.st_mode & (S_ISUID | S_ISGID) != 0
    self.opener = opener
    self.fileSystem = fileSystem
    DescriptorLimit.noteOpened(self.descriptor.rawValue)
  }

  /// Whether the file system has a server, which checks the identity of each client.
  package var isOnServer: Bool { fileSystem.mayChangeUnseen }

  /// Whether a lock through another descriptor would keep the daemon from reading or writing by this one.
  package var hasMandatoryLocks: Bool { fileSystem.hasMandatoryLocks }

  /// Whether the client made the file by this open.
  var isNew: Bool { flags & O_CREAT != 0 }

  /// Whether the client opened the file with O_DIRECT. The client can clear that flag unseen by the daemon.
  package var isDirect: Bool { flags & dfs_O_DIRECT != 0 }

  /// Prepares the descriptor for data that passes through the daemon. It clears O_DIRECT, because the daemon's buffers lack the
  /// alignment that O_DIRECT needs. It clears O_APPEND, which comes with each request, because the client may have changed it
  /// and page writeback must not use it.
  package func beginServing() {
    let unwanted = flags & (dfs_O_DIRECT | O_APPEND)
    if unwanted == 0 { return }
    let current = fcntl(descriptor.rawValue, F_GETFL)
    // O_APPEND of an append-only file (chattr +a) cannot be cleared.
    if fcntl(descriptor.rawValue, F_SETFL, current & ~unwanted) < 0 {
      _ = fcntl(descriptor.rawValue, F_SETFL, current & ~dfs_O_DIRECT)
    }
  }
}

/// The open files of each node: a file without a name is still reached through their descriptors.
final class OpenNodes: Sendable {
  /// The open files of one node: nearly always one, for which no array is made.
  private struct Files {
    private(set) var last: OpenFile
    private var earlier: [OpenFile] = []

    init(_ file: OpenFile) { last = file }

    var all: [OpenFile] { earlier + [last] }
    var isAnyWritten: Bool { last.mayWrite || earlier.contains(where: \.mayWrite) }

    mutating func append(_ file: OpenFile) {
      earlier.append(last)
      last = file
    }

    /// - Returns: false when the file is the only one, which stays.
    mutating func remove(_ file: OpenFile) -> Bool {
      if last !== file {
        earlier.removeAll { $0 === file }
      } else if let next = earlier.popLast() {
        last = next
      } else {
        return false
      }
      return true
    }
  }

  private struct State {
    var files = NodeMap<Files>()
    /// The nodes with modifications that the watch does not report.
    var suppressed: Set<NodeID> = []
  }

  private let watch: ChangeWatch?
  private let state = Guarded(State())

  init(watch: ChangeWatch?) { self.watch = watch }

  func insert(_ file: OpenFile) {
    state.withLock { state in
      if state.files.withValue(of: file.node, { $0.append(file) }) == nil {
        state.files.insert(Files(file), for: file.node)
      }
    }
  }

  func remove(_ file: OpenFile) {
    state.withLock { state in
      let rest = state.files.withValue(of: file.node) { files in
        let isEmpty = !files.remove(file)
        return (isEmpty: isEmpty, isWritten: !isEmpty && files.isAnyWritten)
      }
      guard let rest else { return }
      if file.mayWrite, !rest.isWritten, state.suppressed.contains(file.node),
        watch?.restoreModifications(of: file.descriptor) ?? true
      {
        state.suppressed.remove(file.node)
      }
      if rest.isEmpty { state.files.remove(file.node) }
    }
  }

  func isBeingWritten(_ id: NodeID) -> Bool {
    state.withLock { $0.files[id]?.isAnyWritten ?? false }
  }

  /// The credentials with which pages are written back, for a request that names an open file.
  func pageWriter(of file: OpenFile) -> DataCredentials {
    let writers = state.withLock { ($0.files[file.node]?.all ?? []).filter(\.mayWrite).map(\.opener) }
    return .ofPages(named: file.opener, writers: writers, isOnServer: file.isOnServer)
  }

  /// One of the open files of a node.
  func file(of id: NodeID) -> OpenFile? { state.withLock { $0.files[id]?.last } }

  /// Whether the process of a client has a node open.
  func isOpen(_ id: NodeID, in client: Client) -> Bool {
    let threads = state.withLock { Set($0.files[id]?.all.map(\.thread) ?? []) }
    if threads.isEmpty || threads.contains(client.thread) { return !threads.isEmpty }
    let process = client.threadGroup
    return process != 0
      && threads.contains { Client(user: 0, group: 0, thread: $0, umask: 0).threadGroup == process }
  }

  /// Called after a write to a node. If a client has the node open for writing, the watch reports no further modifications
  /// until the last such file is closed: the kernel sees writes through the mount by itself, and an event per write takes as
  /// long as the write.
  func suppressModifications(of id: NodeID) {
    state.withLock { state in
      guard !state.suppressed.contains(id), let writer = state.files[id]?.all.first(where: \.mayWrite),
        watch?.suppressModifications(of: writer.descriptor) ?? false
      else { return }
      state.suppressed.insert(id)
    }
  }

  /// Whether other processes may write to a node without an event from the watch: the kernel must request its attributes each
  /// time.
  func hasSuppressedModifications(_ id: NodeID) -> Bool { state.withLock { $0.suppressed.contains(id) } }
}
