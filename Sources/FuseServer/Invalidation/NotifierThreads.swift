import BackingTree
import View

/// The threads that report changes to the kernel's caches and to programs that watch the mount.
///
/// They wait for directory locks, which any user may hold, and for the backing file system. So the session ends without waiting
/// for them.
final class NotifierThreads: Sendable {
  private let view: View
  private let notifier: KernelNotifier
  private let replay: Replay?
  private let changeLoop = ThreadGroup()
  /// Nil where no mount can be noticed.
  private let mountWatch = try? MountWatch()
  private let mountLoop = ThreadGroup()

  init(view: View, notifier: KernelNotifier, replay: Replay?) {
    self.view = view
    self.notifier = notifier
    self.replay = replay
    notifier.start()
    replay?.start()
    view.startCaching(notifier)
    view.startCollectingChanges()
    changeLoop.start {
      // Where many clients compute, the daemon's threads wait for a CPU, and events pile up that the next request must process
      // before its reply. With the raised priority, a change in the backing tree was seen after 0.1 to 0.3 s instead of 0.4 to
      // 0.9 s (Mount/attack --pattern everything, two CPUs, a load of 30). The thread's work depends on the number of changes
      // alone.
      Thread.raisePriority()
      view.runChangeLoop { replay?.add($0) }
    }
    if let mountWatch {
      mountLoop.start { mountWatch.run { view.noteMounts(at: $0) } }
    }
  }

  /// Called before the session's descriptor is closed.
  func stop() {
    mountWatch?.stop()
    view.stopChangeLoop()
    replay?.stop()
    notifier.stop()
  }

  /// Called after the mount is gone.
  ///
  /// - Returns: false when a thread still waits for a lock or for the backing file system.
  func waitUntilEnded() -> Bool {
    let haveEnded = [
      notifier.waitUntilEnded(milliseconds: 200), replay?.waitUntilEnded(milliseconds: 200) ?? true,
      changeLoop.waitUntilEnded(milliseconds: 200), mountLoop.waitUntilEnded(milliseconds: 200),
    ]
    return haveEnded.allSatisfy { $0 }
  }
}
