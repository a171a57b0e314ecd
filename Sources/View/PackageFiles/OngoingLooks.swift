import BackingTree

/// The packages that are being examined, for which users, and how many threads wait for each examination.
struct OngoingLooks {
  struct Key: Hashable {
    let package: FileIdentity
    /// -1 for requests that are not attributed to a user.
    let user: Int64
  }

  private struct Look {
    let end = Semaphore()
    var waiting = 0
  }

  private var looks: [Key: Look] = [:]

  /// - Returns: the semaphore that is posted when the examination under way ends. Nil when none is under way: then the calling
  ///   thread examines the package and calls `finish`.
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
    // A thread that has stopped waiting leaves a post behind that no thread takes.
    for _ in 0..<look.waiting { look.end.post() }
  }
}
