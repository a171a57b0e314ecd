import BackingTree
import CFuse
import CLinux
import Glibc
import SystemPackage
import View

/// The open files that the kernel reads, writes and maps without requests to the daemon: their backing files are registered with
/// the kernel.
///
/// The kernel requires that all opens of a node are alike, through one registration: the first open decides and registers, and
/// the last close undoes the registration. A file that cannot be registered is read and written through the daemon.
///
/// The kernel reads and writes with the credentials of the thread that registered the file, for every client that opens it
/// (`backing_file_write_iter` overrides the client's own). So files are registered with the credentials of the user `nobody`,
/// unless all clients are root: a local file system uses them only for blocks that are reserved for root. A server checks them,
/// and its client may take the kernel's own open of the file for a second request of the program: SMB refuses to create the file
/// again (O_CREAT | O_EXCL). So the daemon, which acts as each client, serves the files of a file system with a server.
///
/// The kernel also reads and writes with the flags of open(2), which the client may have changed since (fcntl(2), F_SETFL). Once
/// O_DIRECT is cleared, a transfer of any length has to succeed. So a file that is opened with O_DIRECT gets FOPEN_DIRECT_IO as
/// well: its mappings are those of the backing file, but the daemon serves read(2) and write(2).
///
/// Root's daemon registers each file that it can, also one that is likely to stay empty, although that takes a sixth of the time to
/// create, close and unlink it: only then is a shared mapping of it coherent with writes by programs that do not use the view.
///
/// For an ordinary user's daemon ``PassthroughHelper`` registers files, with the credentials of that user. All clients' data is
/// written with those credentials anyway.
final class Passthrough: Sendable {
  /// How the data of one open node is read and written.
  private struct Backing {
    /// The number by which the kernel knows the backing file; 0 when data passes through the daemon.
    let id: CInt
    /// The thread that opened the file empty, for writing; nil for any other file.
    let writer: pid_t?
    var opens = 1
  }

  /// The credentials with which a backing file is registered; nil where the daemon has to read and write the file.
  ///
  /// - Parameters:
  ///   - isOnServer: whether the file system of the backing file has a server.
  ///   - isForRootAlone: whether all clients are root.
  static func credentials(isOnServer: Bool, isForRootAlone: Bool) -> DataCredentials? {
    isOnServer ? nil : isForRootAlone ? .root : .nobody
  }

  /// In bytes. A smaller file that is opened for reading is not worth the two messages to the helper: one READ fetches it, and
  /// the page cache keeps it. Nor is a file that is opened empty and is likely to stay smaller (``SmallFileWriters``).
  static let minimumSizeForHelper: Int64 = 128 << 10

  /// The process that registers backing files with the kernel, which requires CAP_SYS_ADMIN for that.
  private enum Registrar {
    /// The daemon itself, which is root.
    case daemon
    case helper(PassthroughHelper)
  }

  private struct State {
    var registrar = Registrar.daemon
    var backings: [NodeID: Backing] = [:]
    /// Of files that the helper would register.
    var smallFileWriters = SmallFileWriters()
    /// Whether all clients are root. (no allow_other)
    var isForRootAlone = false
    /// Why no file of this mount can be registered; nil when files can.
    var obstacle: String? = "the kernel has not sent INIT yet"
    /// Why the registration of a file last failed.
    var refusal: Errno?
    /// The types of file systems that the helper has refused, such as tmpfs. They are not sent again: the helper decides by the
    /// type, and each message wakes it. (displayfs-passthrough(8))
    var refused: Set<FileSystemKind> = []
    /// How many opens have passed through, and how many have not.
    var passed = 0
    var served = 0

    /// Counts one more open of a node that is open.
    ///
    /// - Returns: its backing id; nil where it is not open, or `condition` is false.
    mutating func countOpen(_ node: NodeID, if condition: (Backing) -> Bool = { _ in true }) -> CInt? {
      guard let index = backings.index(forKey: node), condition(backings.values[index]) else {
        return nil
      }
      backings.values[index].opens += 1
      return backings.values[index].id
    }

    /// Counts a close of a node. - Returns: what was kept of its opens if that was the last close.
    mutating func countClose(_ node: NodeID) -> Backing? {
      guard let index = backings.index(forKey: node) else { return nil }
      backings.values[index].opens -= 1
      return backings.values[index].opens == 0 ? backings.remove(at: index).value : nil
    }
  }

  private let state = Guarded(State())
  /// Each is held while a file of its share of the nodes is registered: a worker may be preempted meanwhile, and opens of other
  /// files must not wait for it.
  private let registering = (0..<64).map { _ in RecursionFreeLock(.openFile) }

  private func registering(_ node: NodeID) -> RecursionFreeLock {
    registering[Int(node.slot) & (registering.count - 1)]
  }

  /// Chooses the process that registers files. Call when the session is mounted, before the reply to INIT.
  func begin(_ session: OpaquePointer, isWanted: Bool) {
    let (registrar, obstacle) = Self.registrar(session, isWanted: isWanted)
    state.withLock {
      $0.registrar = registrar
      $0.obstacle = obstacle
    }
  }

  /// Ends the helper, if there is one, after the session.
  func end() {
    let registrar = state.withLock { state in
      defer { state.registrar = .daemon }
      return state.registrar
    }
    _ = consume registrar
  }

  private static func registrar(_ session: OpaquePointer, isWanted: Bool) -> (Registrar, obstacle: String?) {
    guard isWanted else { return (.daemon, "switched off by -o passthrough=off") }
    if geteuid() == 0 { return (.daemon, nil) }
    guard let program = PassthroughHelper.program else {
      return (
        .daemon, "only root may register files with the kernel, and displayfs-passthrough is not installed"
      )
    }
    do throws(Errno) { return (.helper(try PassthroughHelper(program, for: session)), nil) } catch {
      let reason =
        error == .notPermitted ? "has no right to register files with the kernel" : "fails (\(error))"
      return (.daemon, "\(program) \(reason)")
    }
  }

  /// Requests passthrough from the kernel. Call before the reply to INIT.
  ///
  /// - Parameters:
  ///   - isStacked: whether the backing file system is itself stacked on another one, as overlayfs is.
  ///   - isForRootAlone: whether all clients are root, if the daemon is.
  func negotiate(
    _ connection: inout fuse_conn_info, isStacked: Bool, isForRootAlone: Bool
  ) {
    state.withLock { state in
      state.isForRootAlone = isForRootAlone
      if state.obstacle == nil, dfs_passthrough_request(&connection, isStacked ? 2 : 1) == 0 {
        state.obstacle = "this kernel does not support it; Linux 6.9 and newer do"
      }
    }
  }

  /// Counts the open of a file, and sets how its data is read and written.
  ///
  /// - Returns: the file's backing id, 0 where it has none.
  func opened(_ file: OpenFile, _ info: UnsafeMutablePointer<fuse_file_info>, for request: Request) -> CInt {
    let id = backingID(of: file, for: request)
    let isPassed = id != 0 && !file.isDirect
    state.withLock { if isPassed { $0.passed += 1 } else { $0.served += 1 } }
    if !isPassed { file.beginServing() }
    info.pointee.direct_io = id != 0 && !isPassed ? 1 : 0
    return id
  }

  private func backingID(of file: OpenFile, for request: Request) -> CInt {
    let lock = registering(file.node)
    lock.lock()
    defer { lock.unlock() }
    let known = state.withLock { state -> CInt? in
      // Where no file can be registered any more, all opens of the node are alike without being counted.
      state.countOpen(file.node) ?? (state.obstacle == nil ? nil : 0)
    }
    if let known { return known }
    let thread = request.client.thread
    // All threads outside the PID namespace of the daemon are 0.
    let writer = file.mayWrite && file.size == 0 && thread != 0 ? thread : nil
    let id = register(file, by: writer, for: request)
    state.withLock { $0.backings[file.node] = Backing(id: id, writer: writer) }
    return id
  }

  /// Whether the kernel reads and writes the content of a node itself, past the page cache of the view.
  func isPassedThrough(_ node: NodeID) -> Bool {
    state.withLock { $0.backings[node].map { $0.id != 0 } ?? false }
  }

  /// Counts a replayed open, whose only purpose is the kernel's event for it.
  ///
  /// - Returns: the backing id of the node's other opens; 0 when there are none or they are not passed through. Then the open is
  ///   not counted.
  func joinOpen(_ node: NodeID) -> CInt {
    let lock = registering(node)
    lock.lock()
    defer { lock.unlock() }
    return state.withLock { $0.countOpen(node) { $0.id != 0 } } ?? 0
  }

  /// Counts the close of an open file of the node; the last one undoes the registration.
  ///
  /// - Parameter file: nil for a replayed open, which has none.
  func closed(_ node: NodeID, _ file: OpenFile?, for request: Request) {
    let (backing, registrar) = state.withLock { ($0.countClose(node), $0.registrar) }
    guard let backing else { return }
    if case .helper = registrar, let writer = backing.writer, let file,
      let status = try? fileStatus(file.descriptor.rawValue)
    {
      let isSmall = status.st_size < Self.minimumSizeForHelper
      state.withLock { $0.smallFileWriters.noteFile(isSmall: isSmall, by: writer) }
    }
    if backing.id == 0 { return }
    switch registrar {
    case .daemon: dfs_backing_close(request.raw, backing.id)
    case .helper(let helper): helper.unregister(backing.id)
    }
  }

  /// - Parameter writer: the thread that opens the file empty, for writing.
  /// - Returns: the backing id, 0 where the file is not registered.
  private func register(_ file: OpenFile, by writer: pid_t?, for request: Request) -> CInt {
    if file.isSetID { return 0 }
    let (registrar, isForRootAlone, isRefused, isLikelySmall) = state.withLock { state in
      (
        state.registrar, state.isForRootAlone, state.refused.contains(file.fileSystem),
        writer.map { state.smallFileWriters.contains($0) } ?? false
      )
    }
    do throws(Errno) {
      switch registrar {
      case .daemon: return try registerAsRoot(file, for: request, isForRootAlone: isForRootAlone)
      case .helper(let helper):
        if isLikelySmall || !file.mayWrite && file.size < Self.minimumSizeForHelper { return 0 }
        if file.isOnServer { throw .hasServer }
        if isRefused { throw .notSupported }
        // The helper requires both permissions; to check them here saves the message. A file opened for writing rarely lacks one.
        if !file.mayWrite { try checkAccess(to: file.descriptor.rawValue, R_OK | W_OK) }
        return try helper.register(file.descriptor.rawValue)
      }
    } catch {
      state.withLock { state in
        switch (registrar, error) {
        case (.daemon, .notPermitted):
          state.obstacle = "the daemon has no right to register files (CAP_SYS_ADMIN)"
        case (.helper, .notSupported): state.refused.insert(file.fileSystem)
        case (.helper, .brokenPipe): state.obstacle = "displayfs-passthrough has ended, or does not respond"
        default: break
        }
        state.refusal = error
      }
      return 0
    }
  }

  private func registerAsRoot(
    _ file: OpenFile, for request: Request, isForRootAlone: Bool
  ) throws(Errno) -> CInt {
    guard let credentials = Self.credentials(isOnServer: file.isOnServer, isForRootAlone: isForRootAlone)
    else {
      throw .hasServer
    }
    // Without CAP_FSETID: a set-user-ID bit must not survive a write by a user without the right to keep it.
    return try credentials.client(umask: request.client.umask).impersonate(setID: DFS_SETID_DROPPED) {
      () throws(Errno) in
      try systemCall { dfs_backing_open(request.raw, file.descriptor.rawValue) }
    }
  }

  /// Lines for a person to read: whether passthrough is in use, and how often.
  var report: [(String, String)] {
    let (obstacle, refusal, passed, served, isHelped) = state.withLock { state in
      let isHelped = if case .helper = state.registrar { true } else { false }
      return (state.obstacle, state.refusal, state.passed, state.served, isHelped)
    }
    var explanation = obstacle.map { "off: \($0)" } ?? "on"
    if obstacle == nil, isHelped {
      explanation +=
        ", by displayfs-passthrough, for files opened to be written and from \(Self.minimumSizeForHelper >> 10) KiB"
    }
    if obstacle == nil, let refusal {
      let reason =
        switch refusal.rawValue {
        case EREMOTE: "lies on a network file system, whose server checks the identity of each user"
        case ELOOP: "lies on a file system that is stacked too deep, such as another FUSE mount"
        case EACCES, EPERM, EROFS: "is one that this user may not write, which passthrough would allow"
        case EDQUOT: "was one more than a user may have passed through at a time"
        case EOPNOTSUPP, EINVAL: "lies on a file system that cannot be passed through"
        default: "was refused (\(refusal))"
        }
      explanation += ", but not for everything: the last file that had to go through the daemon \(reason)"
    }
    return [
      ("passthrough", explanation), ("opens passed through", "\(passed)"),
      ("opens served by the daemon", "\(served)"),
    ]
  }
}

extension Errno {
  /// EREMOTE: the file is on a file system that has a server.
  fileprivate static var hasServer: Errno { Errno(rawValue: Glibc.EREMOTE) }
}
