import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Files that clients write are opened through a ``QuietDirectory``. The kernel itself knows what it writes through passthrough.
/// But an event of it would name the client's process, like that of a write beneath the mount, and the daemon would invalidate
/// what the kernel knows. An empty file takes a fifth longer to create then.
extension View {
  /// The quiet directory through which an entry is opened; nil where it has to be opened through the directory itself.
  ///
  /// - Parameter flags: those with which the client opens the file.
  func quietDirectory(of handle: DirectoryHandle, _ flags: CInt) -> QuietDirectory? {
    guard flags & O_ACCMODE != O_RDONLY, let quiet = handle.quietDirectory(by: changes.watch) else {
      return nil
    }
    // The quiet directory is in a mount of its own. The one that is shown may be read-only since. (mount -o remount,bind,ro)
    return (try? handle.directory.check(".", W_OK)) == nil ? nil : quiet
  }

  /// Called when a file that was written through a quiet directory is closed, in place of the event.
  ///
  /// - Parameter file: its name and directory may be others than when it was opened.
  func noteWritten(_ file: OpenFile, _ status: stat?) {
    let link = nodes.link(of: file.node)
    // The kernel does not know that a mapping has changed the times.
    if status.map({ !file.isUnchanged($0) }) ?? true {
      cached.kernel?.expireAttributes(of: file.node, in: link?.parent)
    }
    guard let link, let watch = changes.watch,
      let directory = (try? directory(link.parent))?.quietDirectory(by: watch)
    else { return }
    link.name.withPointer { watch.noteWritten($0, in: directory) }
  }
}
