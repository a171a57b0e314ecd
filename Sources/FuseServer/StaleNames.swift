import BackingTree
import CFuse
import DisplayNames
import Glibc
import View

/// Makes the kernel forget names that a request has made stale.
///
/// The kernel holds the directory's lock while it waits for the request, and takes it to forget a name: a thread of its
/// own does that, after the request is answered.
final class StaleNames: @unchecked Sendable {
  private struct State {
    var names: [(parent: NodeID, name: Name)] = []
    var hasEnded = false
  }

  private let state = Guarded(State())
  private let wake = Semaphore()

  func add(_ parent: NodeID, _ name: Name) {
    state.withLock { $0.names.append((parent, name)) }
    wake.post()
  }

  func end() {
    state.withLock { $0.hasEnded = true }
    wake.post()
  }

  /// Works until `end`.
  func run(_ session: OpaquePointer) {
    while true {
      wake.wait()
      let (names, hasEnded) = state.withLock { state in
        defer { state.names = [] }
        return (state.names, state.hasEnded)
      }
      if hasEnded { return }
      for (parent, name) in names {
        name.bytes.withUnsafeBytes {
          // Not knowing the name is as good as forgetting it.
          _ = fuse_lowlevel_notify_inval_entry(
            session, parent, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
        }
      }
    }
  }
}
