import BackingTree
import Glibc
import SystemPackage

/// The entries of a large directory, read while a watch on it begins, which takes its time where many files of it are known to
/// the kernel.
///
/// A change before the watch began is not told, but changes the directory's times.
struct EntriesAhead: Sendable {
  private let entries: DirectoryReadAhead
  private let times: FileTimes

  /// In bytes of the directory itself; below, a thread is not worth it.
  private static let least = 256 * 1024

  /// Nil where it is small, or was changed so short a time ago that its times may not tell the next change.
  init?(of directory: Directory) {
    guard let status = try? directory.status(), status.st_size >= Self.least,
      !FileTimes.isRecent(status.st_ctim),
      let readable = try? directory.openForReading(), let entries = DirectoryReadAhead(of: readable)
    else { return nil }
    self.entries = entries
    times = FileTimes(status)
  }

  /// - Parameter status: of the directory since it is watched.
  /// - Returns: the entries, if they are those that it had then.
  func entries(ifTimesAre status: stat) -> DirectoryReadAhead? { FileTimes(status) == times ? entries : nil }
}

/// The entries of a directory: those that were read ahead, or else what is there now.
func forEachEntry(
  of directory: CInt, _ ahead: DirectoryReadAhead?,
  _ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void
) throws(Errno) {
  if let ahead { return try ahead.forEach(body) }
  try forEachEntry(of: directory, body)
}
