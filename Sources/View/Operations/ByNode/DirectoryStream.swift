import BackingTree
import CLinux
import Glibc
import SystemPackage

/// The entries of a backing directory for a mirror, unchanged. Positions derive from those of the backing file system.
final class DirectoryStream: Sendable {
  private let descriptor: Descriptor
  private let lock = RecursionFreeLock(.openFile)
  /// The descriptor's position; nil if it is not known. A needless seek makes a file system drop what it has buffered.
  nonisolated(unsafe) private var offset: Int64?

  init(adopting descriptor: consuming Descriptor) { self.descriptor = descriptor }

  /// Lists entries from a position until `body` returns false. Positions 0 and 1 are `.` and `..`. Position 2 is the start of the
  /// backing directory. All others are those of the backing file system plus two.
  ///
  /// - Parameter size: the room in the client's buffer, in bytes. No more is read at once, so that little is read twice.
  func list(
    from position: Int64, size: Int, _ body: (borrowing ReaddirEntry) -> Bool
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
    // A reply without any entry would mean the end of the directory.
    while progress == .all, reached == position - 2 {
      progress = try readEntries(of: descriptor.rawValue, buffer) { entry, next in
        guard
          body(
            ReaddirEntry(
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
