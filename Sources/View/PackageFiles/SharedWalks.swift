import BackingTree

/// The package walks under way, for which users, and how many threads wait for each: an equal walk need not run twice.
struct SharedWalks {
  struct Key: Hashable {
    let package: FileIdentity
    /// -1 for requests that are not attributed to a user.
    let user: Int64
  }

  private struct Walk {
    let end = Semaphore()
    var waiting = 0
  }

  private var walks: [Key: Walk] = [:]

  /// - Returns: the semaphore that is posted when the examination under way ends. Nil when none is under way: then the calling
  ///   thread examines the package and calls `finish`.
  mutating func join(_ key: Key) -> Semaphore? {
    guard let walk = walks[key] else {
      walks[key] = Walk()
      return nil
    }
    walks[key]!.waiting += 1
    return walk.end
  }

  mutating func finish(_ key: Key) {
    guard let walk = walks.removeValue(forKey: key) else { return }
    // A thread that has stopped waiting leaves a post behind that no thread takes.
    for _ in 0..<walk.waiting { walk.end.post() }
  }
}
