import BackingTree

/// Which packages are looked at, for which users, and how many threads wait for that.
struct OngoingLooks {
  struct Key: Hashable {
    let package: FileIdentity
    /// -1 for requests that are not counted for a user.
    let user: Int64
  }

  private struct Look {
    let end = Semaphore()
    var waiting = 0
  }

  private var looks: [Key: Look] = [:]

  /// - Returns: what is posted when the look that is under way has ended; nil when there is none: then the calling thread
  ///   looks, and calls `finish`.
  mutating func join(_ key: Key) -> Semaphore? {
    guard let look = looks[key] else {
      looks[key] = Look()
      return nil
    }
    looks[key]!.waiting += 1
    return look.end
  }

  mutating func finish(_ key: Key) {
    guard let look = looks.removeValue(forKey: key) else { return }
    // One that has stopped waiting leaves a post behind that nothing takes.
    for _ in 0..<look.waiting { look.end.post() }
  }
}
