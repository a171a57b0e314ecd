import BackingTree
import CFuse
import CLinux
import View

/// Decides for which files the page cache is kept from one open to the next (FOPEN_KEEP_CACHE).
///
/// An open without that flag invalidates the page cache, in the client's open(2) after the reply. The daemon may reply to another
/// open before that. So the cached pages count as read from one version of the file only once the open that invalidated the
/// earlier pages is released.
final class PageCachePolicy: Sendable {
  private struct Entry {
    let version: ContentVersion
    /// The open that invalidated the earlier pages; nil once it is released.
    var invalidatingOpen: ObjectIdentifier?
  }

  private struct State {
    var entries: [NodeID: Entry] = [:]
    var keptCount = 0
  }

  /// When there are this many entries, all are dropped.
  private static let limit = 65_536

  private let state = Guarded(State())

  /// Registers an open of a file whose data is read through the page cache.
  ///
  /// - Returns: whether the open may keep the page cache.
  func opened(_ file: OpenFile) -> Bool {
    guard let version = file.version else {
      remove(file.node)
      return false
    }
    let known = state.withLock { $0.entries[file.node] }
    if let known, known.version == version {
      guard known.invalidatingOpen == nil, !dfs_may_be_open_for_writing(file.descriptor.rawValue) else {
        return false
      }
      state.withLock { $0.keptCount += 1 }
      return true
    }
    let isSettled = version.isSettled(file.descriptor)
    state.withLock { state in
      if state.entries.count >= Self.limit { state.entries = [:] }
      state.entries[file.node] =
        isSettled ? Entry(version: version, invalidatingOpen: ObjectIdentifier(file)) : nil
    }
    return false
  }

  /// Ends an open, on RELEASE.
  func closed(_ file: OpenFile) {
    state.withLock { state in
      if state.entries[file.node]?.invalidatingOpen == ObjectIdentifier(file) {
        state.entries[file.node]!.invalidatingOpen = nil
      }
    }
  }

  /// Drops the entry of a node whose content may have changed: its next open invalidates the page cache.
  func remove(_ node: NodeID) { state.withLock { $0.entries[node] = nil } }

  /// How many opens have kept the page cache.
  var keptCount: Int { state.withLock { $0.keptCount } }
}
