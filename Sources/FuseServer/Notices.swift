import BackingTree
import CFuse
import DisplayNames
import Glibc
import SystemPackage
import View

/// Tells the kernel what it must not answer from its own caches any more.
///
/// The kernel holds a directory's lock while it waits for a request, and takes it to forget a name there: a thread of its
/// own does that, after the request is answered.
final class Notices: CacheNotices, @unchecked Sendable {
  private struct State {
    var names: [(parent: NodeID, name: Name)] = []
    var hasEnded = false
  }

  let tellsOfAllNames: Bool
  private let session: OpaquePointer
  private let mountPoint: FilePath
  private let state = Guarded(State())
  private let wake = Semaphore()

  init(session: OpaquePointer, mountPoint: FilePath) {
    self.session = session
    self.mountPoint = mountPoint
    tellsOfAllNames = dfs_notify_epoch(session) == 0
  }

  func expire(_ name: Name, in directory: NodeID) {
    let isFirst = state.withLock { state in
      state.names.append((directory, name))
      return state.names.count == 1
    }
    if isFirst { wake.post() }
  }

  func expireAttributes(of node: NodeID) {
    // A node that the kernel does not know needs no notice. From -1 on is nothing of its content.
    _ = fuse_lowlevel_notify_inval_inode(session, node, -1, 0)
  }

  /// The kernel takes mounts away from names that it looks up anew after this, so it is not done where something is mounted
  /// below.
  func expireAllNames() -> Bool {
    tellsOfAllNames && !MountTable.hasMounts(below: mountPoint) && dfs_notify_epoch(session) == 0
  }

  /// Has a name asked for again, at once. Waits for whoever works in that directory.
  func expireNow(_ name: Name, in directory: NodeID) {
    // Not knowing the name is as good as forgetting it.
    name.bytes.withCName { _ = dfs_notify_expired(session, directory, $0, UInt32(name.bytes.count)) }
  }

  func end() {
    state.withLock { $0.hasEnded = true }
    wake.post()
  }

  /// Works until `end`.
  func run() {
    while true {
      wake.wait()
      let (names, hasEnded) = state.withLock { state in
        defer { state.names = [] }
        return (state.names, state.hasEnded)
      }
      if hasEnded { return }
      for (parent, name) in names { expireNow(name, in: parent) }
    }
  }
}
