import BackingTree
import CLinux
import Glibc

/// Identifies the content of a regular file at one time: if two versions are equal, and the first one was settled, the content
/// is the same.
///
/// The modification time is not part of it: any process that may write the file can set that. (utimensat(2))
package struct ContentVersion: Equatable, Sendable {
  private let identity: FileIdentity
  private let size: Int64
  private let changeSeconds: Int
  private let changeNanoseconds: Int

  init(_ status: stat) {
    identity = FileIdentity(status)
    size = Int64(status.st_size)
    changeSeconds = status.st_ctim.tv_sec
    changeNanoseconds = status.st_ctim.tv_nsec
  }

  /// Dirty pages are written back after half a minute at the latest, unless the machine is configured otherwise.
  /// (`vm.dirty_expire_centisecs`)
  private static let writebackSeconds = 60

  /// Whether every change of the content from now on gives the file another status change time.
  ///
  /// Three cases prevent that. Two changes in one tick of the clock get the same time. A mapping changes the time when a page is
  /// first written to, and not again before that page has been written back (`page_mkwrite`), so there must be no dirty page. A
  /// synchronous or asynchronous write sets the time when it begins, and may change the content long after, so no process may
  /// have the file open for writing.
  ///
  /// - Parameter file: the file, opened before the version was taken.
  package func isSettled(_ file: borrowing Descriptor) -> Bool {
    let time = timespec(tv_sec: changeSeconds, tv_nsec: changeNanoseconds)
    if FileTimes.isRecent(time) || dfs_may_be_open_for_writing(file.rawValue) { return false }
    switch dfs_has_dirty_pages(file.rawValue) {
    case 0: return true
    case 1: return false
    default:
      // The kernel does not report dirty pages before Linux 6.5, nor for files that this user may not write. After this
      // time there should be no dirty page, and to write back none costs nothing.
      var now = timespec()
      clock_gettime(CLOCK_REALTIME, &now)
      return now.tv_sec - changeSeconds > Self.writebackSeconds && dfs_write_back(file.rawValue) == 0
    }
  }
}
