import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// Decides what the kernel may cache.
extension View {
  /// The entry and attribute timeout in seconds for replies that the kernel may cache.
  ///
  /// For watched directories it bounds how long a change goes unnoticed that the watch does not report: access times, files that
  /// are changed through another hard link or a mapping.
  package var cacheTimeout: Double { source.coherence.recheck.map { Double($0) / 1e9 } ?? 60 }

  /// Lets the kernel cache names and attributes from now on, which `kernel` invalidates.
  package func startCaching(_ kernel: some KernelCacheInvalidator) { cached.kernel = kernel }

  /// Whether the watch on a file's directory reports every change of the file's attributes.
  func canCacheAttributes(
    of node: NodeID, _ status: stat, nodeKind: NodeKind, in handle: DirectoryHandle
  ) -> Bool {
    // A directory's attributes change with its contents. A file with several links may change through a link in another
    // directory.
    guard nodeKind == .plain, status.st_nlink == 1, FileType(mode: status.st_mode) != .directory,
      UInt64(status.st_dev) == handle.identity.device
    else { return false }
    // When the kernel writes through passthrough, it clears these bits in the backing inode only, not in its own.
    if status.st_mode & (S_ISUID | S_ISGID) != 0 { return false }
    return !openNodes.hasSuppressedModifications(node)
  }

  /// Whether the kernel may cache a negative entry. A change that makes the name resolve invalidates the entry.
  func canCacheNegativeEntry(of name: UnsafePointer<CChar>, in parent: NodeID, _ version: DirectoryVersion)
    -> Bool
  {
    let copy = Name(copying: name)
    if isPlainMirror { return version.noteNegativeEntry(copy) }
    // With `hidden=deny`, ENOENT depends on more than the name. An AppleDouble sidecar appears and disappears with its file.
    guard options.hidden != .deny, strncmp(name, "._", 2) != 0 else { return false }
    if directories.views.view(of: parent)?.noteNegativeEntry(copy, version) ?? false { return true }
    // Where hidden entries are not listed, no display name begins with a period: only an entry with this real name can appear,
    // or one with an equal name.
    guard options.hidden == .reach, name[0] == 0x2e, !inspector.hasKnownExtension(copy), !mayMatch(name)
    else {
      return false
    }
    return version.noteNegativeEntry(copy)
  }

  /// Invalidates what the kernel cached from a reply if the directory changed while the reply was on its way.
  package func revalidateAfterReply(_ entry: Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    if let version = entry.nameVersion, version.isStale {
      let isDirectory = entry.id != 0 && FileType(mode: entry.attributes.st_mode) == .directory
      invalidateBeforeNextWalk([StaleName(Name(copying: name), in: parent, mayBeDirectory: isDirectory)])
    }
    if let version = entry.attributesVersion { revalidateAfterReply(version, of: entry.id, in: parent) }
  }

  /// Invalidates a node's attributes if they changed while the reply was on its way.
  ///
  /// - Parameter parent: the directory of the lookup, if the reply was to one.
  package func revalidateAfterReply(_ version: DirectoryVersion, of node: NodeID, in parent: NodeID? = nil) {
    if version.isStale(for: node) { cached.kernel?.expireAttributes(of: node, in: parent) }
  }
}
