import Glibc

extension View {
  /// The change loop: reports what changes in the view on the calling thread, from now until `stopChangeLoop`.
  ///
  /// A change is reported within a few microseconds when nothing else has happened for a millisecond. Otherwise the changes of
  /// about a millisecond are reported together. While there are only events of what programs do through the view, the pause
  /// between two drains of the watch grows to four milliseconds.
  package func runChangeLoop(_ report: ([ViewChange]) -> Void) {
    guard let watch else { return }
    var pause = Self.pause
    while changeQueue.isCollecting {
      watch.wait()
      var viewChanges = drainViewChanges()
      if ViewChange.hasHalfRename(viewChanges) {
        usleep(Self.pause)
        viewChanges += drainViewChanges()
      }
      if !viewChanges.isEmpty {
        invalidateNames(viewChanges)
        report(ViewChange.joiningRenames(viewChanges))
      }
      pause = viewChanges.isEmpty ? min(2 * pause, 4 * Self.pause) : Self.pause
      usleep(pause)
    }
  }

  /// Whether the watch reports if the daemon itself caused a change: true for fanotify, false for inotify, nil where nothing is
  /// watched.
  package var watchReportsPID: Bool? { watch?.reportsPID }

  /// Called before `runChangeLoop`, which then reports every change from this call on.
  package func startCollectingChanges() { changeQueue.startCollectingChanges() }

  /// Ends `runChangeLoop`.
  package func stopChangeLoop() { changeQueue.stopChangeLoop() }

  /// The shortest pause between two drains of the watch, in microseconds.
  private static let pause: UInt32 = 1000

  private func drainViewChanges() -> [ViewChange] {
    watch?.drain()
    let dirtyDirectories = changeQueue.takeDirtyDirectories()
    expireOutdated(dirtyDirectories)
    invalidateDisplayNames(of: changeQueue.takeDroppedViews(), isChangeLoop: true)
    for directory in dirtyDirectories { directory.view?.processPendingChanges(directory.unreported) }
    return changeQueue.takeChanges()
  }
}
