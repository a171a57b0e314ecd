import Synchronization

/// Counts how often cached data was requested, and how often it had to be fetched from the backing tree.
package final class Tally: Sendable {
  private let requestCounter = Atomic(0)
  private let fetchCounter = Atomic(0)

  package var requested: Int { requestCounter.load(ordering: .relaxed) }
  package var fetched: Int { fetchCounter.load(ordering: .relaxed) }

  func countRequest() { requestCounter.add(1, ordering: .relaxed) }
  func countFetch() { fetchCounter.add(1, ordering: .relaxed) }
}
