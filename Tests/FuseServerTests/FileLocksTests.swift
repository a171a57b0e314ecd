import BackingTree
import Glibc
import SystemPackage
import Testing

@testable import FuseServer
@testable import View

@Suite struct FileLocksTests {
  /// Clients that take the first locks on a package at the same time conflict with each other.
  @Test func firstLocksOnAPackage_takenAtOnce_conflict() {
    let locks = FileLocks()
    let client = Client(user: geteuid(), group: getegid(), thread: 0, umask: 0)
    for round in 0..<200 {
      let open = FileLocks.Open(node: NodeID(UInt32(2 + round)), handle: 1, file: nil)
      let granted = Guarded(0)
      let threads = ThreadGroup()
      for owner in 0..<8 as Range<UInt64> {
        threads.start {
          do throws(Errno) {
            try locks.flock(LOCK_EX, of: owner, in: open, for: client)
            granted.withLock { $0 += 1 }
          } catch { #expect(error == .resourceTemporarilyUnavailable) }
        }
      }
      #expect(threads.waitUntilEnded(milliseconds: 30_000))
      #expect(granted.withLock { $0 } == 1)
      locks.closed(open.handle, of: open.node)
    }
  }
}
