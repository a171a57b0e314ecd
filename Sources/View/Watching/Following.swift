import Glibc

extension View {
  /// The change loop: reports what changes in the view on the calling thread, from now until `stopFollowing`.
  ///
  /// A change is reported within a few microseconds when nothing else has happened for a millisecond. Otherwise the changes of
  /// about a millisecond are reported together. While there are only echoes of what programs do through the view, the pause
  /// between two drains of the watch grows to four milliseconds.
  public func follow(_ tell: ([ViewChange]) -> Void) {
    guard let watch else { return }
    var pause = Self.pause
    while changes.isFollowed {
      watch.wait()
      var news = takeNews()
      if ViewChange.awaitsOtherHalf(news) {
        usleep(Self.pause)
        news += takeNews()
      }
      if !news.isEmpty {
        expireNames(news)
        tell(ViewChange.joiningRenames(news))
      }
      pause = news.isEmpty ? min(2 * pause, 4 * Self.pause) : Self.pause
      usleep(pause)
    }
  }

  /// Whether the watch reports if the daemon itself caused a change: true for fanotify, false for inotify, nil where nothing is
  /// watched.
  public var watchTellsWho: Bool? { watch?.tellsWho }

  /// Called before `follow`, which then reports every change from this call on.
  public func startFollowing() { changes.startFollowing() }

  /// Ends `follow`.
  public func stopFollowing() { changes.stopFollowing() }

  /// The shortest pause between two drains of the watch, in microseconds.
  private static let pause: UInt32 = 1000

  private func takeNews() -> [ViewChange] {
    watch?.drain()
    let unseen = changes.takeUnseen()
    expireOutdated(unseen)
    forgetDisplayNames(of: changes.takeLetGo(), isFollowing: true)
    for directory in unseen { directory.view?.follow(directory.unreported) }
    return changes.takeChanges()
  }
}
