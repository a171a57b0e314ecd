import Synchronization

/// Counts how often cached data was requested, and how often it had to be fetched from the backing tree.
public final class Tally: Sendable {
  private let asks = Atomic(0)
  private let fetches = Atomic(0)

  public var asked: Int { asks.load(ordering: .relaxed) }
  public var fetched: Int { fetches.load(ordering: .relaxed) }

  func countAsked() { asks.add(1, ordering: .relaxed) }
  func countFetched() { fetches.add(1, ordering: .relaxed) }
}
