import BackingTree
import CFuse
import DisplayNames
import Glibc
import SystemPackage
import View

/// Tells the kernel what it must not answer from its own caches any more.
///
/// The kernel holds a directory's lock while it looks a name up there that it does not know, and takes it to forget a name:
/// a thread of its own does that, after the request is answered. Of a name that it knows and asks for again it holds no
/// lock: what it is answered may come after a notice that the name has expired, and would be believed, but not after one
/// that the name is not valid.
final class Notices: CacheNotices, @unchecked Sendable {
  private enum Notice {
    case expired(Name, in: NodeID)
    case invalid(Name, in: NodeID, then: (@Sendable () -> Void)?)
    case attributes(of: NodeID, in: NodeID)
    case allNames(whenRead: [NodeID])
  }

  private struct State {
    var notices: [Notice] = []
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

  func expire(_ name: Name, in directory: NodeID) { add(.expired(name, in: directory)) }

  func invalidate(_ name: Name, in directory: NodeID, then: (@Sendable () -> Void)?) {
    add(.invalid(name, in: directory, then: then))
  }

  func expireAttributes(of node: NodeID, in directory: NodeID?) {
    if expireNow(node) || directory == nil { return }
    // Whoever looks it up has the directory locked until the kernel knows it.
    add(.attributes(of: node, in: directory!))
  }

  private func add(_ notice: Notice) {
    let isFirst = state.withLock { state in
      state.notices.append(notice)
      return state.notices.count == 1
    }
    if isFirst { wake.post() }
  }

  /// - Returns: false when the kernel does not know the node.
  private func expireNow(_ node: NodeID) -> Bool {
    // From -1 on is nothing of its content.
    fuse_lowlevel_notify_inval_inode(session, node, -1, 0) != -ENOENT
  }

  /// The kernel takes mounts away from names that it looks up anew after this, so it is not done where something is mounted
  /// below.
  func expireAllNames() -> Bool {
    tellsOfAllNames && !MountTable.hasMounts(below: mountPoint) && dfs_notify_epoch(session) == 0
  }

  func expireAllNames(whenRead directories: [NodeID]) { add(.allNames(whenRead: directories)) }

  /// Has a name asked for again, at once. Waits for whoever works in that directory.
  func expireNow(_ name: Name, in directory: NodeID) { notify(name, in: directory, isInvalid: false) }

  /// - Returns: whether the kernel believes in the name no longer. Not knowing it is as good as forgetting it.
  @discardableResult
  private func notify(_ name: Name, in directory: NodeID, isInvalid: Bool) -> Bool {
    let outcome = name.bytes.withCName {
      dfs_notify_entry(session, directory, $0, UInt32(name.bytes.count), isInvalid ? 1 : 0)
    }
    return outcome == 0 || outcome == ENOENT
  }

  func end() {
    state.withLock { $0.hasEnded = true }
    wake.post()
  }

  /// Works until `end`.
  func run() {
    while true {
      wake.wait()
      let (notices, hasEnded) = state.withLock { state in
        defer { state.notices = [] }
        return (state.notices, state.hasEnded)
      }
      if hasEnded { return }
      for notice in notices {
        switch notice {
        case .expired(let name, let directory): expireNow(name, in: directory)
        case .invalid(let name, let directory, let then):
          if notify(name, in: directory, isInvalid: true) { then?() }
        case .attributes(let node, let directory):
          // No file has this name. It waits for the lock.
          expireNow(".", in: directory)
          _ = expireNow(node)
        case .allNames(let directories):
          for directory in directories { expireNow(".", in: directory) }
          _ = expireAllNames()
        }
      }
    }
  }
}
