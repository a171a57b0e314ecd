import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

/// Which open files the kernel reads, writes and maps without asking: their backing files are registered with it.
///
/// The kernel wants all opens of a node to be alike, through one registration: the first open decides and registers, the
/// last close takes that back. A file that cannot be registered is read and written through the daemon.
///
/// The kernel reads and writes with the credentials of the thread that registered the file, for every client that opens it
/// (`backing_file_write_iter` overrides the client's own). So files are registered with the credentials of the user nobody,
/// unless all clients are root: a local file system uses them for nothing but blocks that are reserved for root. A server
/// checks them, so files on a file system that has one pass through the daemon, which acts as each client.
///
/// The kernel also reads and writes with the flags of open(2), which the client may have changed since (fcntl(2), F_SETFL).
/// Once O_DIRECT is cleared a transfer of any length has to succeed. So a file that is opened with O_DIRECT gets
/// FOPEN_DIRECT_IO as well: its mappings are those of the backing file, but the daemon serves read(2) and write(2).
final class Passthrough: Sendable {
  private struct Backing {
    /// The number that the kernel knows the backing file by; 0 when data passes through the daemon.
    let id: CInt
    var opens: Int
  }

  /// The identity with which a backing file is registered; nil where the daemon has to read and write it.
  ///
  /// - Parameters:
  ///   - isOnServer: whether its file system has a server, which checks the identity of each client.
  ///   - isForRootAlone: whether all clients are root.
  static func identity(isOnServer: Bool, isForRootAlone: Bool) -> DataIdentity? {
    isForRootAlone ? .root : isOnServer ? nil : .nobody
  }

  private struct State {
    var backings: [NodeID: Backing] = [:]
    /// Whether all clients are root. (no allow_other)
    var isForRootAlone = false
    /// Why no file of this mount can be registered; nil when files can.
    var obstacle: String? = "the kernel has not said hello yet"
    /// Why the last file that could not be registered was not.
    var refusal: Errno?
    /// How many opens have been passed through, and how many have not.
    var passed = 0
    var served = 0
  }

  private let state = Guarded(State())

  /// Asks the kernel for it while INIT is answered.
  ///
  /// - Parameters:
  ///   - isStacked: whether the backing file system lies on another one itself, as overlayfs does.
  ///   - isForRootAlone: whether all clients are root, if the daemon is.
  func negotiate(
    _ connection: inout fuse_conn_info, isWanted: Bool, isStacked: Bool, isForRootAlone: Bool
  ) {
    let obstacle: String? =
      if !isWanted {
        "switched off by -o passthrough=off"
      } else if geteuid() != 0 {
        "only root may register files with the kernel"
      } else if dfs_passthrough_want(&connection, isStacked ? 2 : 1) == 0 {
        "this kernel does not offer it; it came with Linux 6.9"
      } else {
        nil
      }
    state.withLock {
      $0.obstacle = obstacle
      $0.isForRootAlone = isForRootAlone
    }
  }

  /// A file was opened; sets how its data is to be read and written. - Returns: its backing id, 0 where it has none.
  func opened(_ file: OpenFile, _ info: UnsafeMutablePointer<fuse_file_info>, for request: Request) -> CInt {
    let (id, isPassed) = state.withLock { state -> (CInt, Bool) in
      let known = state.backings[file.node]
      if known == nil, state.obstacle != nil {
        // All opens are alike without that anybody remembers.
        state.served += 1
        return (0, false)
      }
      let id = known?.id ?? register(file, for: request, &state)
      state.backings[file.node] = Backing(id: id, opens: (known?.opens ?? 0) + 1)
      let isPassed = id != 0 && !file.isDirect
      if isPassed { state.passed += 1 } else { state.served += 1 }
      return (id, isPassed)
    }
    if !isPassed { file.beginServing() }
    info.pointee.direct_io = id != 0 && !isPassed ? 1 : 0
    return id
  }

  /// A file is opened only for the kernel to tell of it. - Returns: the backing id of the node's other opens, with which
  /// this one is counted; 0 when it is alone or those are not passed through.
  func joined(_ node: NodeID) -> CInt {
    state.withLock { state in
      guard let backing = state.backings[node], backing.id != 0 else { return 0 }
      state.backings[node]!.opens += 1
      return backing.id
    }
  }

  /// A file of the node was closed by whom it was opened for.
  func closed(_ node: NodeID, for request: Request) {
    state.withLock { state in
      guard let backing = state.backings[node] else { return }
      guard backing.opens == 1 else {
        state.backings[node]!.opens -= 1
        return
      }
      state.backings[node] = nil
      if backing.id != 0 { dfs_backing_close(request.raw, backing.id) }
    }
  }

  /// - Returns: the backing id, 0 where the file is not registered.
  private func register(_ file: OpenFile, for request: Request, _ state: inout State) -> CInt {
    if file.isSetID { return 0 }
    let identity = Self.identity(isOnServer: file.isOnServer, isForRootAlone: state.isForRootAlone)
    do throws(Errno) {
      guard let identity else { throw .hasServer }
      // Without CAP_FSETID: a set-user-ID bit must not outlive a write by a user who may not keep it.
      return try identity.caller(umask: request.caller.umask).act(setID: DFS_SETID_DROPPED) {
        () throws(Errno) in
        try systemCall { dfs_backing_open(request.raw, file.descriptor.rawValue) }
      }
    } catch {
      if error == .notPermitted {
        state.obstacle = "the daemon has no right to register files (CAP_SYS_ADMIN)"
      }
      state.refusal = error
      return 0
    }
  }

  /// For people: whether it is in use, and how often.
  var report: [(String, String)] {
    let (obstacle, refusal, passed, served) = state.withLock {
      ($0.obstacle, $0.refusal, $0.passed, $0.served)
    }
    var explanation = obstacle.map { "off: \($0)" } ?? "on"
    if obstacle == nil, let refusal {
      let reason =
        switch refusal.rawValue {
        case EREMOTE: "lies on a file system that has a server, which checks the identity of each user"
        case ELOOP: "lies on a file system that is stacked too deep, such as another FUSE mount"
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
  /// EREMOTE: a file on a file system that has a server.
  fileprivate static var hasServer: Errno { Errno(rawValue: Glibc.EREMOTE) }
}
