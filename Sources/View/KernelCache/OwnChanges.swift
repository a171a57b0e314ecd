import BackingTree
import Glibc
import SystemPackage

extension View {
  /// Records that a replay reports all changes of a file until now to the kernel's watchers: an event of the backing tree about
  /// them is a self event.
  package func noteReplayed(_ id: NodeID) {
    if let located = try? locate(id) { changes.own.note(located.rawValue) }
  }
}

/// The changes of content and attributes that were made through the mount. The kernel has reported them to its watchers itself,
/// so the backing tree's event for the same change is a self event.
///
/// Stored is the status change time (ctime) that each file had when the mount was done with it. A file that has another ctime
/// now was changed by another process.
final class OwnChanges: Sendable {
  private struct State {
    var times: [FileIdentity: timespec] = [:]
    var order: [FileIdentity] = []
    var inProgress: [FileIdentity: Int] = [:]
  }

  /// The most files recorded. A self event arrives within milliseconds, and fewer files than this are changed in that time.
  private static let limit = 4096

  private let state = Guarded(State())
  private let nodes: NodeTable
  private let openNodes: OpenNodes
  private let isEnabled: Bool

  /// - Parameter isEnabled: whether `contains` will be called. A mirror reports no changes, so nothing is recorded for it.
  init(nodes: NodeTable, openNodes: OpenNodes, isEnabled: Bool) {
    self.isEnabled = isEnabled
    self.nodes = nodes
    self.openNodes = openNodes
  }

  /// Runs a change of a file's attributes that is made through the mount.
  func recording<R: ~Copyable>(on descriptor: CInt, _ body: () throws(Errno) -> R) throws(Errno) -> R {
    guard isEnabled else { return try body() }
    let identity = FileIdentity(try fileStatus(descriptor))
    state.withLock { $0.inProgress[identity, default: 0] += 1 }
    defer {
      note(descriptor)
      state.withLock { state in
        let rest = state.inProgress[identity]! - 1
        state.inProgress[identity] = rest == 0 ? nil : rest
      }
    }
    return try body()
  }

  /// Runs a change made through the mount that concerns a file's names alone, but gives it another ctime: a file that is as the
  /// mount left it is that afterwards, too.
  func preserving<R: ~Copyable>(_ descriptor: CInt, _ body: () throws(Errno) -> R) throws(Errno) -> R {
    if isEnabled, contains(try fileStatus(descriptor)) { return try recording(on: descriptor, body) }
    return try body()
  }

  /// Called when the mount is done with an open file that it may have changed.
  func note(_ descriptor: CInt) {
    guard isEnabled, let status = try? fileStatus(descriptor) else { return }
    state.withLock { state in
      let identity = FileIdentity(status)
      if state.times.updateValue(status.st_ctim, forKey: identity) == nil { state.order.append(identity) }
      guard state.order.count > Self.limit else { return }
      for old in state.order.prefix(Self.limit / 2) { state.times[old] = nil }
      state.order.removeFirst(Self.limit / 2)
    }
  }

  /// Whether a file of that status is as the mount left it, or is being changed through the mount.
  func contains(_ status: stat) -> Bool {
    let identity = FileIdentity(status)
    // Must come first: a file that is closed is recorded before it leaves `openNodes`.
    if let node = nodes.node(of: identity), openNodes.isBeingWritten(node) { return true }
    return state.withLock { state in
      if state.inProgress[identity] != nil { return true }
      guard let own = state.times[identity] else { return false }
      return own == status.st_ctim
    }
  }
}
