import BackingTree
import Glibc
import SystemPackage

/// The entries of a large directory, read on another thread while a watch on the directory is set up. Setting up the watch is
/// slow where the kernel knows many files of the directory.
///
/// The watch does not report a change made before it began, but such a change shows in the directory's times.
struct EntriesAhead: Sendable {
  private let entries: DirectoryReadAhead
  private let times: FileTimes

  /// The minimum size of the directory itself, in bytes. For a smaller one a thread is not worth its cost.
  static let minimumSize = 256 * 1024

  /// Nil where the directory is small, or where its last change is so recent that the next change may leave the same times.
  init?(of directory: Directory) {
    guard let status = try? directory.status(), status.st_size >= Self.minimumSize,
      !FileTimes.isRecent(status.st_ctim),
      let readable = try? directory.openForReading(), let entries = DirectoryReadAhead(of: readable)
    else { return nil }
    self.entries = entries
    times = FileTimes(status)
  }

  /// - Parameter status: the directory's status, read after the watch began.
  /// - Returns: the entries that were read ahead, if the directory has not changed since; otherwise nil.
  func entries(ifTimesMatch status: stat) -> DirectoryReadAhead? {
    FileTimes(status) == times ? entries : nil
  }
}
