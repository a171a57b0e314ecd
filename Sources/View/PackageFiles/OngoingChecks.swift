import BackingTree

/// The packages that are being examined, for which users, and how many threads wait for each examination.
struct OngoingChecks {
  struct Key: Hashable {
    let package: FileIdentity
    /// -1 for requests that are not attributed to a user.
    let user: Int64
  }

  private struct Check {
    let end = Semaphore()
    var waiting = 0
  }

  private var checks: [Key: Check] = [:]

  /// - Returns: the semaphore that is posted when the examination under way ends. Nil when none is under way: then the calling
  ///   thread examines the package and calls `finish`.
  mutating func join(_ key: Key) -> Semaphore? {
    guard let check = checks[key] else {
      checks[key] = Check()
      return nil
    }
    checks[key]!.waiting += 1
    return check.end
  }

  mutating func finish(_ key: Key) {
    guard let check = checks.removeValue(forKey: key) else { return }
    // A thread that has stopped waiting leaves a post behind that no thread takes.
    for _ in 0..<check.waiting { check.end.post() }
  }
}
