import BackingTree
import Synchronization

/// Listings that told what names stand for, and which the kernel may not have read yet.
///
/// It believes in what it reads there even if it was told meanwhile to forget every name: only who holds the directory, as the
/// kernel does while it reads, can be sure of what it knows. Whoever lists a directory and asks for something else has read
/// the last answer.
final class ListingsUnderway: Sendable {
  private let listings = Guarded<[NodeID: Int]>([:])

  func begin(_ directory: NodeID) { listings.withLock { $0[directory, default: 0] += 1 } }

  func end(_ directory: NodeID) {
    listings.withLock { listings in
      let count = listings[directory, default: 1] - 1
      listings[directory] = count == 0 ? nil : count
    }
  }

  /// Directories that such a listing is of.
  var directories: [NodeID] { listings.withLock { Array($0.keys) } }
}
