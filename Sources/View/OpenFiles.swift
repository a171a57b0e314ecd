import BackingTree
import CFuse
import Glibc

/// The user and group whose rights count when a file's data is written: to blocks that are reserved for root, and with the
/// server of a network file system.
public struct DataIdentity: Equatable, Sendable {
  public let user: uid_t
  public let group: gid_t

  public init(user: uid_t, group: gid_t) {
    self.user = user
    self.group = group
  }

  public static let root = DataIdentity(user: 0, group: 0)

  /// No user in particular: nothing is reserved for this one, and no server knows it. (the kernel's overflow ids)
  public static let nobody = DataIdentity(user: 65534, group: 65534)

  /// A client with these rights. No thread belongs to it, so it has no supplementary groups.
  public func caller(umask: mode_t) -> Caller { Caller(user: user, group: group, process: 0, umask: umask) }

  /// The identity with which pages of a shared mapping are written back. The kernel names any open file of the node that is
  /// open for writing (`fuse_write_file_get`), and no client. So the rights are those that all openers have.
  ///
  /// - Parameters:
  ///   - named: the opener of the file that the request names.
  ///   - writers: the openers of all files of the node that are open for writing.
  ///   - isOnServer: whether the file system has a server, which may refuse the user nobody.
  public static func ofPages(named: Self, writers: [Self], isOnServer: Bool) -> Self {
    if writers.allSatisfy({ $0 == named }) { return named }
    return isOnServer ? writers.first { $0.user != 0 } ?? named : .nobody
  }
}

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
  public let opener: DataIdentity
  /// Whether its file system has a server, which checks the identity of each client.
  public let isOnServer: Bool
  /// Its size in bytes when it was opened.
  public let size: Int64
  /// The version of its content when it was opened; nil where a change of that may go unnoticed.
  public let version: ContentVersion?
  private let flags: CInt

  /// The thread that opened it; 0 where the daemon cannot see it.
  let thread: pid_t

  /// - Parameters:
  ///   - status: the file's, when it was opened.
  ///   - showsChanges: whether each change of the content changes its version.
  ///   - isHeardOfWhenClosed: for a file that is opened for writing.
  init(
    descriptor: consuming Descriptor, node: NodeID, flags: CInt, status: stat, showsChanges: Bool,
    isHeardOfWhenClosed: Bool, isOnServer: Bool, opener: DataIdentity, thread: pid_t
  ) {
    self.thread = thread
    self.descriptor = descriptor
    self.node = node
    self.flags = flags
    mayWrite = flags & O_ACCMODE != O_RDONLY
    self.isHeardOfWhenClosed = mayWrite && isHeardOfWhenClosed
    size = Int64(status.st_size)
    version = showsChanges && flags & O_TRUNC == 0 ? ContentVersion(status) : nil
    isSetID = status.st_mode & (S_ISUID | S_ISGID) != 0
    self.opener = opener
    self.isOnServer = isOnServer
    DescriptorLimit.given(self.descriptor.rawValue)
  }

  /// Whether the client opened it with O_DIRECT, which it can clear unseen by the daemon.
  public var isDirect: Bool { flags & dfs_O_DIRECT != 0 }

  /// Prepares for data that passes through the daemon, whose buffers are not aligned as O_DIRECT needs. O_APPEND comes with each
  /// request, as the client may have changed it, and must not count for page writeback.
  public func beginServing() {
    let unwanted = flags & (dfs_O_DIRECT | O_APPEND)
    if unwanted == 0 { return }
    let current = fcntl(descriptor.rawValue, F_GETFL)
    // The flag of a file that may only be appended to (chattr +a) cannot be taken away.
    if fcntl(descriptor.rawValue, F_SETFL, current & ~unwanted) < 0 {
      _ = fcntl(descriptor.rawValue, F_SETFL, current & ~dfs_O_DIRECT)
    }
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

  /// The identity with which pages are written back, for a request that names an open file.
  func pageWriter(of file: OpenFile) -> DataIdentity {
    let writers = state.withLock { ($0.files[file.node] ?? []).filter(\.mayWrite).map(\.opener) }
    return .ofPages(named: file.opener, writers: writers, isOnServer: file.isOnServer)
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
