import BackingTree
import View

/// The threads that tell the kernel, and programs that watch the mount, of what changes.
///
/// They wait for directories that the kernel has locked until somebody's request is answered. So they are ended first, while
/// requests still are; the connection of a mount that is gone ends their waiting, too.
final class Tellers: Sendable {
  private let view: View
  private let notices: Notices
  private let replay: Replay?
  private let ending = RecursionFreeLock()
  private let threads: Guarded<[Thread]>

  init(view: View, notices: Notices, replay: Replay?) {
    self.view = view
    self.notices = notices
    self.replay = replay
    view.startCaching(notices)
    view.startFollowing()
    let threads = [
      Thread { notices.run() },
      Thread { view.follow { replay?.add($0) } },
      replay.flatMap { replay in Thread { replay.run() } },
    ]
    self.threads = Guarded(threads.compactMap { $0 })
  }

  /// Returns when all have ended, whoever has asked them to.
  func end() {
    ending.lock()
    defer { ending.unlock() }
    view.stopFollowing()
    replay?.end()
    notices.end()
    let left = threads.withLock { threads in
      defer { threads = [] }
      return threads
    }
    for thread in left { thread.join() }
  }
}
