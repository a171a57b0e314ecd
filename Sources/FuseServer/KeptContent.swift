import BackingTree
import CFuse
import View

/// Which files the page cache may keep the content of from one open to the next. (FOPEN_KEEP_CACHE)
///
/// An open without that flag drops what is cached, in the client's open(2) after the reply. Another open may be replied to
/// before: so what is cached counts as read from a version of the file only once the open that dropped the rest is released.
final class KeptContent: Sendable {
  private struct Entry {
    let version: ContentVersion
    /// The open that dropped what was cached before; nil once it is released.
    var dropping: ObjectIdentifier?
  }

  private struct State {
    var entries: [NodeID: Entry] = [:]
    var kept = 0
  }

  /// Of more files nothing is remembered.
  private static let limit = 65_536

  private let state = Guarded(State())

  /// A file was opened. Its data is read through the page cache.
  ///
  /// - Returns: whether it may keep what it has cached.
  func opened(_ file: OpenFile) -> Bool {
    guard let version = file.version else {
      forget(file.node)
      return false
    }
    let known = state.withLock { $0.entries[file.node] }
    if let known, known.version == version {
      guard known.dropping == nil, !dfs_may_be_open_for_writing(file.descriptor.rawValue) else {
        return false
      }
      state.withLock { $0.kept += 1 }
      return true
    }
    let isSettled = version.isSettled(file.descriptor)
    state.withLock { state in
      if state.entries.count >= Self.limit { state.entries = [:] }
      state.entries[file.node] =
        isSettled ? Entry(version: version, dropping: ObjectIdentifier(file)) : nil
    }
    return false
  }

  /// An open file was released.
  func closed(_ file: OpenFile) {
    state.withLock { state in
      if state.entries[file.node]?.dropping == ObjectIdentifier(file) {
        state.entries[file.node]!.dropping = nil
      }
    }
  }

  /// A node's content may have changed: the next open drops what is cached.
  func forget(_ node: NodeID) { state.withLock { $0.entries[node] = nil } }

  /// How many opens have kept what was cached.
  var kept: Int { state.withLock { $0.kept } }
}
