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
    process(changes.queue.takeDirtyDirectories())
    var reported = changes.queue.takeChanges()
    var last = reported
    // Until its end was seen, a directory may have had changes that were reported after it was processed, or after the list of
    // directories was taken. They come first: once the end is replayed, the kernel takes the directory for removed. (S_DEAD)
    for _ in 0..<Self.depth {
      let ended = Set(last.compactMap { $0.endedDirectory { directoryNode(of: $0) } })
      if ended.isEmpty { break }
      changes.watch?.drain()
      let dirtyDirectories = changes.queue.takeDirtyDirectories { ended.contains($0) }
      if dirtyDirectories.isEmpty { break }
      process(dirtyDirectories)
      last = changes.queue.takeChanges()
      reported += last
    }
    return reported
  }

  /// How many directories that lie in one another and end together are reported in this order. A process that goes on to remove
  /// directories must not delay the report.
  private static let depth = 64

  private func process(_ dirtyDirectories: [DirectoryChanges.LoopWork]) {
    expireOutdated(dirtyDirectories)
    invalidateDisplayNames(of: changes.queue.takeDroppedViews(), isChangeLoop: true)
    for directory in dirtyDirectories { directory.view?.processPendingChanges(directory.unreported) }
    refreshViews(inside: changes.queue.takeInspectedDirectories())
  }
}
