import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The ``QuietDirectory`` of a directory, if it has one.
struct QuietHandle: Sendable {
  let identity: FileIdentity
  let directory: QuietDirectory?
}

/// Files that clients write are opened through a ``QuietDirectory``. The kernel itself knows what it writes through passthrough.
/// But an event of it would name the client's process, like that of a write beneath the mount, and the daemon would invalidate
/// what the kernel knows, which it has to request again to open the file once more.
extension View {
  /// The quiet directory through which files of a directory are opened; nil where they have to be opened through the directory
  /// itself.
  ///
  /// - Parameter flags: those with which the client opens the file.
  func quietDirectory(of id: NodeID, _ handle: DirectoryHandle, _ flags: CInt) -> QuietDirectory? {
    guard flags & O_ACCMODE != O_RDONLY, let quiet = knownQuietDirectory(of: id, handle) else { return nil }
    // Changes of the shown mount do not reach its clone. (mount -o remount,bind,ro)
    return (try? handle.directory.check(".", W_OK)) == nil ? nil : quiet
  }

  private func knownQuietDirectory(of id: NodeID, _ handle: DirectoryHandle) -> QuietDirectory? {
    guard let watch = changes.watch else { return nil }
    if let known = directories.quiet.value(of: id), known.identity == handle.identity {
      return known.directory
    }
    var opened: QuietDirectory?
    do throws(Errno) { opened = try watch.quietDirectory(handle.directory) } catch {
      guard error == .notSupported else { return nil }
    }
    if let opened, DescriptorLimit.isReserved(opened.directory.descriptor) { return nil }
    directories.quiet.insert(QuietHandle(identity: handle.identity, directory: opened), for: id)
    return opened
  }

  /// Called when a file that was opened through a quiet directory is closed, in place of the event.
  ///
  /// - Parameter file: its name and directory may be others than when it was opened.
  func noteWritten(_ file: OpenFile, _ status: stat?) {
    let link = nodes.link(of: file.node)
    // The kernel expires the attributes itself when it writes, but does not know that a mapping has changed the times.
    if status.map(file.mayHaveChangedByMapping) ?? true {
      cached.kernel?.expireAttributes(of: file.node, in: link?.parent)
    }
    guard let link, let watch = changes.watch, let parent = try? directory(link.parent) else { return }
    link.name.withPointer { watch.noteWritten($0, in: parent.directory) }
  }
}
