import BackingTree
import Glibc

/// What another displayfs says of itself.
public enum ViewStatus {
  /// The extended attribute of the root of a mount that holds its status, one `name: value` on each line.
  public static let attribute = "user.displayfs.status"
  /// The line of a mount that tells programs that watch it of what changes beneath.
  public static let tells = "changes told: yes"
}

/// How changes that are made directly in the backing tree are noticed.
public struct Coherence: Sendable {
  public enum Mode: String, CaseIterable, Sendable {
    /// `timeout` where the backing file system does not tell of all changes, else `watch`.
    case auto
    /// The backing file system tells of every change. (fanotify or inotify)
    case watch
    /// What it tells of is noticed at once, everything else after a time at the latest.
    case timeout
  }

  public var mode: Mode
  /// How long a listing is believed in mode `timeout`, in seconds.
  public var timeout: UInt64

  public init(mode: Mode = .auto, timeout: UInt64 = 1) {
    self.mode = mode
    self.timeout = timeout
  }

  /// After how many nanoseconds the times of a watched directory are compared again; nil when the watch is trusted.
  var recheck: Int64? { mode == .timeout ? nanoseconds(ofSeconds: timeout) : nil }

  /// With `auto` decided for a tree.
  func decided(for source: Directory, on fileSystem: FileSystemKind) -> Coherence {
    guard mode == .auto else { return self }
    // A displayfs tells its watchers of everything where it says so.
    let status = ExtendedAttributes(of: source.descriptor).value(ViewStatus.attribute, limit: 65_536) ?? []
    let isTold =
      !fileSystem.changesUnseen
      || status.split(separator: 0x0a).contains { $0.elementsEqual(ViewStatus.tells.utf8) }
    return Coherence(mode: isTold ? .watch : .timeout, timeout: timeout)
  }
}
