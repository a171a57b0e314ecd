import BackingTree
import Glibc
import SystemPackage

/// What happens when the descriptors run out: what is open for speed is closed first, and the last ones are for looking
/// up, listing, renaming and removing.
extension View {
  /// Called before anything is opened for a client that it keeps open.
  ///
  /// - Throws: ENFILE when none is left for clients.
  public func refuseTheLastDescriptors() throws(Errno) {
    let root = rootHandle.directory.descriptor
    guard DescriptorLimit.isReached(copying: root) else { return }
    releaseDescriptors()
    if DescriptorLimit.isReached(copying: root) { throw .tooManyOpenFilesInSystem }
  }

  /// Makes room for what failed. - Returns: whether to try again.
  public func releaseDescriptors(after error: Errno) -> Bool {
    // A removed file occupies its place on the disk until it is closed.
    if error == .noSpace || error == Errno(rawValue: EDQUOT) { return unlinkedNodes.closeAll() }
    guard error == .tooManyOpenFiles || error == .tooManyOpenFilesInSystem else { return false }
    releaseDescriptors()
    return true
  }

  /// Closes the directories that are open for speed.
  func releaseDescriptors() {
    handles.removeAll()
    _ = unlinkedNodes.closeAll()
    forgetDisplayNames(of: directoryViews.removeAll())
  }
}
