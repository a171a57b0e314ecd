import BackingTree
import CFuse
import Glibc
import SystemPackage

/// The entries of a backing directory as they are, for a mirror. Positions are the backing file system's own.
final class DirectoryStream: Sendable {
  private let descriptor: Descriptor
  private let lock = RecursionFreeLock()

  init(adopting descriptor: consuming Descriptor) { self.descriptor = descriptor }

  /// Positions 0 and 1 are `.` and `..`; 2 is the backing directory's start, others are its own, two higher.
  func list(
    from position: Int64, device: UInt64, _ body: (borrowing ListedEntry) -> Bool
  ) throws(Errno) {
    lock.lock()
    defer { lock.unlock() }
    try systemCall { lseek(descriptor.rawValue, off_t(position - 2), SEEK_SET) }
    try forEachEntryWithPosition(of: descriptor.rawValue) { entry, next in
      body(
        ListedEntry(
          name: entry.name, inode: UInt(entry.inode), type: entry.type.modeBits,
          next: next > Int64.max - 2 ? next : next + 2))
    }
  }
}
