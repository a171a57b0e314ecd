import Glibc

extension View {
  /// The change loop: reports what changes in the view on the calling thread, from now until `stopChangeLoop`.
  ///
  /// A change is reported within a few microseconds when nothing else has happened for a millisecond. Otherwise the changes of
  /// about a millisecond are reported together. While there are only events of what programs do through the view, the pause
  /// between two drains of the watch grows to four milliseconds.
  package func runChangeLoop(_ report: ([ViewChange]) -> Void) {
    guard let watch = changes.watch else { return }
    var pause = Self.pause
    while changes.queue.isCollecting {
      watch.wait()
      var viewChanges = drainViewChanges()
      if ViewChange.hasHalfRename(viewChanges) {
        usleep(Self.pause)
        viewChanges += drainViewChanges()
      }
      if !viewChanges.isEmpty {
        invalidateNames(viewChanges)
        report(ViewChange.endingDirectoriesLast(ViewChange.inOrder(viewChanges)) { directoryNode(of: $0) })
      }
      pause = viewChanges.isEmpty ? min(2 * pause, 4 * Self.pause) : Self.pause
      usleep(pause)
    }
  }

  /// The names of the kernel's interfaces that report changes; none where nothing is watched.
  package var watchInterfaces: [String] { changes.watch?.interfacesInUse ?? [] }

  /// Called before `runChangeLoop`, which then reports every change from this call on.
  package func startCollectingChanges() { changes.queue.startCollectingChanges() }

  /// Ends `runChangeLoop`.
  package func stopChangeLoop() { changes.queue.stopChangeLoop() }

  /// The shortest pause between two drains of the watch, in microseconds.
  private static let pause: UInt32 = 1000

  /// Processes what has changed by now.
  ///
  /// - Returns: the changes of the view, to be reported.
  func drainViewChanges() -> [ViewChange] {
    changes.watch?.drain()
    let dirtyDirectories = changes.queue.takeDirtyDirectories()
    expireOutdated(dirtyDirectories)
    invalidateDisplayNames(of: changes.queue.takeDroppedViews(), isChangeLoop: true)
    for directory in dirtyDirectories { directory.view?.processPendingChanges(directory.unreported) }
    refreshViews(inside: changes.queue.takeInspectedDirectories())
    return changes.queue.takeChanges()
  }
}
