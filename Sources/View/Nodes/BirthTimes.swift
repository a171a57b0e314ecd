import BackingTree
import Glibc

/// When the directories that the kernel knows were made, by node.
///
/// A file system may give the inode number of a removed directory to the next one that is made. If that one has the same name,
/// nothing else distinguishes the two, and a process that works in the removed directory would reach the files of the new one.
/// Recorded for file systems that do that (`FileSystemKind.reusesInodeNumbers`), but not in an exported view, which knows the
/// generations of inodes.
final class BirthTimes: Sendable {
  /// Nanoseconds since 1970.
  private let times = Guarded(NodeMap<Int64>())

  /// Records the birth of a node's directory, unless it is known.
  func note(_ birth: timespec, of id: NodeID) {
    times.withLock { times in
      if times[id] == nil { times.insert(Self.nanoseconds(birth), for: id) }
    }
  }

  /// Whether a directory was made at another time than that of the node. False where one of the times is not known.
  ///
  /// - Parameter birth: called where that of the node is known.
  func differs(from id: NodeID, _ birth: () -> timespec?) -> Bool {
    guard let known = times.withLock({ $0[id] }), let birth = birth() else { return false }
    return known != Self.nanoseconds(birth)
  }

  func remove(_ id: NodeID) { times.withLock { _ = $0.remove(id) } }

  private static func nanoseconds(_ time: timespec) -> Int64 {
    Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
  }
}
