import CLinux
import Glibc
import SystemPackage

/// Reports where file systems are mounted and unmounted in this process's mount namespace. (`poll` of `/proc/self/mountinfo`)
public final class MountWatch: Sendable {
  private let table: Descriptor
  /// Readable when `run` is to return. (`eventfd`)
  private let waker: Descriptor
  /// What is mounted when the watch begins.
  private let first: Set<MountTable.Place>
  /// In milliseconds. A machine that runs containers may mount something many times a second, and has a long table.
  private static let pause: CInt = 100

  /// - Throws: EMFILE or ENFILE when there is no descriptor left, ENOENT where `/proc` is not mounted.
  public init() throws(Errno) {
    table = Descriptor(adopting: try systemCall { open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) })
    waker = Descriptor(adopting: try systemCall { eventfd(0, CInt(EFD_NONBLOCK | EFD_CLOEXEC)) })
    first = MountTable.places
  }

  /// Calls `body` with the mount points that came and went, until `stop` is called.
  public func run(_ body: (Set<FilePath>) -> Void) {
    var known = first
    while let haveChanged = wait() {
      if !haveChanged { continue }
      let places = MountTable.places
      let changed = places.symmetricDifference(known)
      known = places
      if !changed.isEmpty { body(Set(changed.map(\.mountPoint))) }
      if isStopped(within: Self.pause) { return }
    }
  }

  public func stop() { _ = eventfd_write(waker.rawValue, 1) }

  /// Waits until the table has changed since the last time.
  ///
  /// - Returns: false when the wait was interrupted, nil when `stop` was called.
  private func wait() -> Bool? {
    var waited = [
      pollfd(fd: table.rawValue, events: Int16(POLLPRI), revents: 0),
      pollfd(fd: waker.rawValue, events: Int16(POLLIN), revents: 0),
    ]
    let count = poll(&waited, 2, -1)
    if count < 0 { return errno == EINTR || errno == ENOMEM ? false : nil }
    return waited[1].revents != 0 ? nil : true
  }

  private func isStopped(within milliseconds: CInt) -> Bool {
    var waited = pollfd(fd: waker.rawValue, events: Int16(POLLIN), revents: 0)
    return poll(&waited, 1, milliseconds) > 0
  }
}
