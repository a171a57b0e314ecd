import BackingTree
import CFuse
import Glibc
import SystemPackage
import View

/// Which open files the kernel reads, writes and maps without asking: their backing files are registered with it.
///
/// The kernel wants all opens of a node to be alike, through one registration: the first open decides and registers, the
/// last close takes that back. A file that cannot be registered is read and written through the daemon.
final class Passthrough: Sendable {
  private struct Backing {
    /// The number that the kernel knows the backing file by; 0 when data passes through the daemon.
    let id: CInt
    var opens: Int
  }

  private struct State {
    var backings: [NodeID: Backing] = [:]
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
  /// - Parameter isStacked: whether the backing file system lies on another one itself, as overlayfs does.
  func negotiate(_ connection: inout fuse_conn_info, isWanted: Bool, isStacked: Bool) {
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
    state.withLock { $0.obstacle = obstacle }
  }

  /// A file was opened. - Returns: its backing id, 0 when data is to pass through the daemon.
  func opened(_ file: OpenFile, for request: Request) -> CInt {
    let id = state.withLock { state -> CInt in
      let known = state.backings[file.node]
      if known == nil, state.obstacle != nil {
        // All opens are alike without that anybody remembers.
        state.served += 1
        return 0
      }
      let id = known?.id ?? (file.isSetID ? 0 : register(file, for: request, &state))
      state.backings[file.node] = Backing(id: id, opens: (known?.opens ?? 0) + 1)
      if id == 0 { state.served += 1 } else { state.passed += 1 }
      return id
    }
    if id == 0 { file.readAndWriteBuffered() }
    return id
  }

  /// A file is opened only for the kernel to tell of it. - Returns: the backing id of the node's other opens, with which
  /// this one is counted; 0 when it is alone or those are not passed through.
  func joined(_ node: NodeID) -> CInt {
    state.withLock { state in
      guard let backing = state.backings[node], backing.id != 0 else { return 0 }
      state.backings[node] = Backing(id: backing.id, opens: backing.opens + 1)
      return backing.id
    }
  }

  /// A file of the node was closed by whom it was opened for.
  func closed(_ node: NodeID, for request: Request) {
    state.withLock { state in
      guard let backing = state.backings[node] else { return }
      guard backing.opens == 1 else {
        state.backings[node] = Backing(id: backing.id, opens: backing.opens - 1)
        return
      }
      state.backings[node] = nil
      if backing.id != 0 { dfs_backing_close(request.raw, backing.id) }
    }
  }

  private func register(_ file: OpenFile, for request: Request, _ state: inout State) -> CInt {
    do throws(Errno) {
      // The kernel writes with the credentials of the thread that registers the file: those of the client, for a network file
      // system, and without CAP_FSETID, as a set-user-ID bit must not outlive a write by a user who may not keep it.
      return try request.caller.act(setID: DFS_SETID_DROPPED) { () throws(Errno) in
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
