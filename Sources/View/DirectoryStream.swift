import BackingTree
import CFuse
import Glibc
import SystemPackage

/// The entries of a backing directory as they are, for a mirror. Positions are the backing file system's own.
final class DirectoryStream: Sendable {
  private let descriptor: Descriptor
  private let lock = RecursionFreeLock()
  /// Where the descriptor is, as far as is known. To be told to go there costs a file system what it has at hand.
  nonisolated(unsafe) private var offset: Int64?

  init(adopting descriptor: consuming Descriptor) { self.descriptor = descriptor }

  /// Positions 0 and 1 are `.` and `..`; 2 is the backing directory's start, others are its own, two higher.
  ///
  /// - Parameter size: in bytes, what whoever asks has room for. As much is read, so that little is read twice.
  func list(
    from position: Int64, size: Int, _ body: (borrowing ListedEntry) -> Bool
  ) throws(Errno) {
    lock.lock()
    defer { lock.unlock() }
    var reached = position - 2
    if reached == 0 || reached != offset {
      try systemCall { lseek(descriptor.rawValue, off_t(reached), SEEK_SET) }
    }
    offset = nil
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
    defer { buffer.deallocate() }
    var progress = DirectoryReading.all
    // An answer without any entry would be the end.
    while progress == .all, reached == position - 2 {
      progress = try readEntries(of: descriptor.rawValue, buffer) { entry, next in
        guard
          body(
            ListedEntry(
              name: entry.name, realName: UnsafeRawBufferPointer(entry.name), inode: UInt(entry.inode),
              type: entry.type.modeBits,
              next: next > Int64.max - 2 ? next : next + 2))
        else { return false }
        reached = next
        return true
      }
    }
    if progress != .stopped { offset = reached }
  }
}
