import BackingTree
import Glibc

/// The status that a displayfs mount publishes.
package enum ViewStatus {
  /// The extended attribute of a mount's root that holds its status, one `name: value` on each line.
  package static let attribute = "user.displayfs.status"
  /// The status line of a mount that reports changes of its backing tree to programs that watch the mount.
  package static let reportsChanges = "changes told: yes"
}

/// How the daemon notices changes that are made directly in the backing tree.
package struct Coherence: Sendable {
  package enum Mode: String, CaseIterable, Sendable {
    /// `timeout` if the backing file system does not report all changes, else `watch`.
    case auto
    /// The backing file system reports every change. (fanotify or inotify)
    case watch
    /// Reported changes are noticed at once, all others after `timeout` at the latest.
    case timeout
  }

  package var mode: Mode
  /// How long a listing is considered current in mode `timeout`, in seconds.
  package var timeout: UInt64

  package init(mode: Mode = .auto, timeout: UInt64 = 1) {
    self.mode = mode
    self.timeout = timeout
  }

  /// The number of nanoseconds after which the times of a watched directory are compared again; nil when the watch is complete.
  var recheck: Int64? { mode == .timeout ? nanoseconds(ofSeconds: timeout) : nil }

  /// This configuration, with `auto` replaced by the mode that suits a tree.
  func resolved(for source: Directory, on fileSystem: FileSystemKind) -> Coherence {
    guard mode == .auto else { return self }
    // The status of a displayfs mount says whether it reports all changes.
    let status = ExtendedAttributes(of: source.descriptor).value(ViewStatus.attribute, limit: 65_536) ?? []
    let reportsChanges =
      !fileSystem.mayChangeUnseen
      || status.split(separator: 0x0a).contains { $0.elementsEqual(ViewStatus.reportsChanges.utf8) }
    return Coherence(mode: reportsChanges ? .watch : .timeout, timeout: timeout)
  }
}
