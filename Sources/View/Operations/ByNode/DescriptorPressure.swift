import BackingTree
import Glibc
import SystemPackage

/// What happens when the daemon runs out of descriptors: cached descriptors are closed first, and the last free ones are reserved
/// for lookups, listings, renames and removals.
extension View {
  /// Called before the daemon opens anything that a client keeps open.
  ///
  /// - Throws: ENFILE when no descriptor is left for clients.
  package func ensureDescriptorsLeft() throws(Errno) {
    let root = source.root.directory.descriptor
    guard DescriptorLimit.isReached(copying: root) else { return }
    releaseDescriptors()
    if DescriptorLimit.isReached(copying: root) { throw .tooManyOpenFilesInSystem }
  }

  /// Frees resources after an operation failed with `error`. - Returns: whether to try again.
  package func releaseDescriptors(after error: Errno) -> Bool {
    // A removed file occupies disk space until it is closed.
    if error == .noSpace || error == Errno(rawValue: EDQUOT) { return unlinkedNodes.closeAll() }
    guard error == .tooManyOpenFiles || error == .tooManyOpenFilesInSystem else { return false }
    releaseDescriptors()
    return true
  }

  /// Runs `body`, and once more if it failed for want of something that could be released.
  func retryingAfterRelease<R: ~Copyable>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
    do throws(Errno) { return try body() } catch {
      guard releaseDescriptors(after: error) else { throw error }
      return try body()
    }
  }

  /// Closes the directories that are open only to save time.
  func releaseDescriptors() {
    directories.handles.removeAll()
    _ = unlinkedNodes.closeAll()
    invalidateDisplayNames(of: directories.views.removeAll())
  }
}
