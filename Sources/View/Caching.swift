import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the kernel may answer from its own caches.
extension View {
  /// The entry and attribute timeout in seconds of what the kernel may cache.
  ///
  /// Where changes are watched this bounds what the watch does not see: the time of the last reading, files that are
  /// changed by another of their names or through a mapping, and what is mounted in the backing tree.
  public var keptFor: Double { coherence.recheck.map { Double($0) / 1e9 } ?? 60 }

  /// From now on the kernel may cache names and attributes, which `kernel` invalidates.
  public func startCaching(_ kernel: some KernelCache) { cached.kernel = kernel }

  /// Whether a file's attributes change in no other way than the watch on its directory tells.
  func mayKeepAttributes(
    of node: NodeID, _ status: stat, facet: Facet, in handle: DirectoryHandle
  ) -> Bool {
    guard facet == .plain, !openNodes.isUnheard(node), UInt64(status.st_dev) == handle.identity.device else {
      return false
    }
    // The kernel clears these bits when it writes through passthrough, without noting it in its own inode.
    if status.st_mode & (S_ISUID | S_ISGID) != 0 { return false }
    // A directory's own change with what is in it.
    let type = FileType(mode: status.st_mode)
    return type != .directory && status.st_nlink == 1
  }

  /// Whether the kernel may cache a name as absent: a change that gives it a meaning invalidates it.
  func mayKeepAbsence(of name: UnsafePointer<CChar>, in parent: NodeID, _ lease: CacheLease) -> Bool {
    let copy = Name(copying: name)
    if isPlainMirror { return lease.noteAbsent(copy) }
    // With `hidden=deny` ENOENT depends on more than the name. An AppleDouble sidecar comes and goes with its file.
    guard options.hidden != .deny, strncmp(name, "._", 2) != 0 else { return false }
    if directoryViews.view(of: parent)?.noteAbsent(copy, lease) ?? false { return true }
    // Where hidden entries are not listed no display name begins with a period: only that very name can come to be there.
    guard options.hidden == .reach, name[0] == 0x2e, !inspector.hasKnownExtension(copy) else { return false }
    return lease.noteAbsent(copy)
  }

  /// Invalidates what a reply told the kernel if the directory changed while the reply was on its way.
  public func settle(_ entry: Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    if let lease = entry.nameLease, lease.isBroken {
      let isDirectory = entry.id != 0 && FileType(mode: entry.attributes.st_mode) == .directory
      invalidate([StaleName(Name(copying: name), in: parent, mayBeDirectory: isDirectory)])
    }
    if let lease = entry.attributesLease { settle(lease, of: entry.id, in: parent) }
  }

  /// The same of a node's attributes.
  ///
  /// - Parameter parent: where it was looked up, if it was.
  public func settle(_ lease: CacheLease, of node: NodeID, in parent: NodeID? = nil) {
    if lease.isBroken(for: node) { cached.kernel?.expireAttributes(of: node, in: parent) }
  }
}
