import Glibc

extension View {
  /// Tells what changes in the view, from now until `stopFollowing`, on the calling thread.
  ///
  /// A change is told within a few microseconds when nothing else happened for a millisecond; otherwise changes of about
  /// a millisecond are told together. While there are only echoes of what programs do through the view, they are looked at
  /// more and more seldom, every four milliseconds at last.
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

  /// Whether it is known who causes what changes beside the mount (fanotify) or not (inotify); nil where nothing is watched.
  public var watchTellsWho: Bool? { watch?.tellsWho }

  /// Called before `follow`: what changes from here on will be told.
  public func startFollowing() { changes.startFollowing() }

  /// Ends `follow`.
  public func stopFollowing() { changes.stopFollowing() }

  /// In microseconds.
  private static let pause: UInt32 = 1000

  private func takeNews() -> [ViewChange] {
    watch?.drain()
    expireOutdated()
    forgetDisplayNames(of: changes.takeLetGo(), isFollowing: true)
    for view in changes.takeUnseen() { view.follow() }
    return changes.takeChanges()
  }
}
