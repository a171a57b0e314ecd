import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The content of a lookup reply: a file as the kernel gets to know it.
package struct Entry: Sendable {
  package let id: NodeID
  /// The number by which the kernel knows the node; 0 for a negative entry.
  package let nodeid: UInt64
  package let generation: UInt64
  package let attributes: stat
  /// The version of the directory that permits the kernel to cache the name; nil when the kernel must not cache it.
  package var nameVersion: DirectoryVersion? = nil
  /// The same for the attributes.
  package var attributesVersion: DirectoryVersion? = nil

  /// Removes the versions that are stale by now, so that the reply does not permit the kernel to cache what they stand for. A
  /// change after that, while the reply is on its way, is invalidated after the reply (``View/revalidateAfterReply(_:_:_:)``).
  ///
  /// In place: an entry is large, and each entry of a listing passes here.
  package mutating func dropStaleVersions() {
    if nameVersion?.isStale == true { nameVersion = nil }
    if attributesVersion?.isStale(for: id) == true { attributesVersion = nil }
  }

  /// The same file, of which the kernel must cache nothing.
  package var uncached: Entry {
    Entry(id: id, nodeid: nodeid, generation: generation, attributes: attributes)
  }

  /// A negative entry: the name stands for nothing, and the kernel may cache that.
  static func negative(_ version: DirectoryVersion) -> Entry {
    Entry(id: 0, nodeid: 0, generation: 0, attributes: stat(), nameVersion: version)
  }
}

extension Entry {
  init(
    _ node: NodeTable.LookupResult, _ attributes: stat, nameVersion: DirectoryVersion? = nil,
    attributesVersion: DirectoryVersion? = nil
  ) {
    self.init(
      id: node.id, nodeid: node.nodeid, generation: node.generation, attributes: attributes,
      nameVersion: nameVersion, attributesVersion: attributesVersion)
  }
}

extension View {
  /// Looks up `name` in `parent`. The kernel's lookup count (nlookup) of the node rises by one.
  package func lookup(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    let handle = try directory(parent)
    return try lookup(parent, handle, name, version: cached.version(parent, handle))
  }

  /// The same; returns ``Entry/negative(_:)`` when the name stands for nothing and the kernel may cache that.
  package func lookupOrNegativeEntry(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, client: Client
  ) throws(Errno) -> Entry {
    walks.beginLookup(in: parent, by: client.thread)
    let handle = try directory(parent)
    let version = cached.version(parent, handle)
    do throws(Errno) {
      let entry = try lookup(parent, handle, name, version: version)
      walks.endLookup(of: entry, in: parent, by: client.thread)
      return entry
    } catch {
      guard error == .noSuchFileOrDirectory, let version, canCacheNegativeEntry(of: name, in: parent, version)
      else {
        throw error
      }
      return .negative(version)
    }
  }

  private func lookup(
    _ parent: NodeID, _ handle: DirectoryHandle, _ name: UnsafePointer<CChar>, version: DirectoryVersion?
  ) throws(Errno) -> Entry {
    let found = try find(parent, handle, name)
    return try entry(found, in: parent, version: version)
  }

  /// Subtracts `count` from the kernel's lookup count (nlookup) of a node. (FORGET)
  package func forget(_ id: NodeID, count: UInt64) { nodes.forget(id, count: count) }

  /// The same for the node that the kernel knows by a nodeid.
  package func forget(nodeid: UInt64, count: UInt64) {
    if let id = nodes.node(nodeid: nodeid) { forget(id, count: count) }
  }

  /// Makes the lookup reply for a file that was found. The nlookup of its node rises by one.
  ///
  /// - Parameters:
  ///   - version: the version of the directory, taken before anything was read.
  ///   - identityMatch: whether the file is the one that the kernel knows, if the kernel's was seen under another link.
  /// - Throws: EINTR when the walk of a package was interrupted, ESTALE when the file has just been replaced. The nlookup is then
  ///   as before.
  func entry(
    _ found: Found, in parent: NodeID, version: DirectoryVersion? = nil,
    identityMatch: NodeTable.IdentityMatch = .unknown
  ) throws(Errno) -> Entry {
    var found = found
    let type = FileType(mode: found.status.st_mode)
    let node = try node(of: &found, in: parent, identityMatch)
    if node.didMove {
      if !isStillAtLastPlace(node) { walks.moved.noteMove(of: node.id) }
      refreshViews(inMoved: FileIdentity(found.status))
    }
    if let replaced = node.replaced { cached.kernel?.expireAttributes(of: replaced, in: nil) }
    if type != .regular, type != .directory, type != .symlink { noteSpecialFile(node.id, found.status) }
    let attributes: stat
    do throws(Errno) {
      attributes = try found.realName.withPointer { (name) throws(Errno) in
        try present(
          found.status, nodeKind: found.nodeKind, name: name, in: found.directory, parent: parent)
      }
    } catch {
      forget(node.id, count: 1)
      throw error
    }
    guard let version else {
      return Entry(node, attributes)
    }
    // LINK names a node, and the last lookup determines which of the node's names is meant. So no name of a file with several
    // links is cached.
    let isNameCacheable =
      (type == .directory || found.status.st_nlink <= 1) && found.isEntryCacheable
      && UInt64(found.status.st_dev) == found.directory.identity.device
    // The version of the directory itself, taken here, covers what changes from now on.
    if type == .directory, found.nodeKind == .plain, let own = cached.version(node.id),
      let now = found.realName.withPointer({ try? found.directory.status($0) }),
      now.isOfSameFile(as: found.status)
    {
      return Entry(node, present(now), nameVersion: isNameCacheable ? version : nil, attributesVersion: own)
    }
    let areAttributesCacheable = canCacheAttributes(
      of: node.id, found.status, nodeKind: found.nodeKind, in: found.directory)
    return Entry(
      node, attributes, nameVersion: isNameCacheable ? version : nil,
      attributesVersion: areAttributesCacheable ? version : nil)
  }

  /// Whether a directory is at two places, because it is mounted at one of them: it was not moved, and a client that came by one
  /// place is not to be refused because another one comes by the other.
  private func isStillAtLastPlace(_ node: NodeTable.LookupResult) -> Bool {
    guard let last = node.lastLink, let link = nodes.link(of: node.id) else { return false }
    return holds(last.parent, last.name, link)
  }

  /// The node of a file that was found, with its nlookup raised by one.
  ///
  /// - Parameter found: gets the present status of a directory that was removed and made again with its inode number.
  /// - Throws: ESTALE where that has happened and the name leads to another file by now, and where a directory is mounted below
  ///   itself.
  private func node(
    of found: inout Found, in parent: NodeID, _ identityMatch: NodeTable.IdentityMatch
  ) throws(Errno) -> NodeTable.LookupResult {
    var replacing: NodeID?
    // While programs move directories, each round may find other ones.
    for _ in 0..<Self.mostRounds {
      if let node = lookupOrInsert(found, in: parent, replacing: replacing, identityMatch) {
        if node.id != replacing, replacing != nil { expireNames(of: found, in: parent) }
        return node
      }
      guard FileType(mode: found.status.st_mode) == .directory else {
        return lookupOrInsert(found, in: parent, self.identityMatch(of: found.status, found.nodeKind))!
      }
      if found.nodeKind == .plain { try dropStaleLink(between: FileIdentity(found.status), and: parent) }
      // The status may be that of the removed directory, and the node that of the new one, which another thread has found.
      replacing = nodes.node(of: FileIdentity(found.status), nodeKind: found.nodeKind)
      let directory = found.directory
      let now = try found.realName.withPointer { (name) throws(Errno) in try directory.status(name) }
      guard FileIdentity(now) == FileIdentity(found.status), FileType(mode: now.st_mode) == .directory else {
        throw .staleNFSFileHandle
      }
      found.status = now
    }
    throw .staleNFSFileHandle
  }

  private static let mostRounds = 16

  /// Called when a directory was found in one that may be recorded below it. Then a directory between the two has been moved away,
  /// and the kernel has not looked it up yet.
  ///
  /// - Throws: ESTALE where all are at their places: the directory is mounted below itself. The kernel refuses (ELOOP) to have one
  ///   directory there and above.
  private func dropStaleLink(between ancestor: FileIdentity, and parent: NodeID) throws(Errno) {
    guard nodes.isBelow(parent, [ancestor]) else { return }
    var current = parent
    while !nodes.hasIdentity(current, ancestor) {
      // Another thread has recorded something else since.
      guard let next = nodes.lastParent(of: current), next != NodeTable.root else { return }
      guard let link = nodes.link(of: current), link.parent == next else {
        return nodes.dropLink(of: current, in: next)
      }
      do throws(Errno) {
        let directory = try directory(next)
        let status = try link.name.withPointer { (name) throws(Errno) in try directory.status(name) }
        guard link.matches(status) else { return nodes.dropLink(of: current, in: next) }
      } catch {
        // Only these errors show that the directory is not there.
        guard [.noSuchFileOrDirectory, .notDirectory, .staleNFSFileHandle].contains(error) else {
          throw error
        }
        return nodes.dropLink(of: current, in: next)
      }
      current = next
    }
    throw .staleNFSFileHandle
  }

  private func lookupOrInsert(
    _ found: Found, in parent: NodeID, replacing: NodeID? = nil, _ identityMatch: NodeTable.IdentityMatch
  ) -> NodeTable.LookupResult? {
    found.realName.withPointer { name in
      nodes.lookupOrInsert(
        LookedUpFile(
          identity: FileIdentity(found.status), type: FileType(mode: found.status.st_mode),
          nodeKind: found.nodeKind, parent: parent, name: name, byRealName: found.byRealName,
          isMatch: found.isMatch,
          isOnlyName: found.status.st_nlink <= 1, birth: source.birth(of: found.status),
          isSubvolume: source.isSubvolume(found.status),
          durable: durableNodeID(of: name, in: found.directory.directory, found.status, found.nodeKind)),
        replacing: replacing, identityMatch)
    }
  }

  /// Has the kernel look up the names of a directory that was removed and made again: it may know the removed one by each.
  private func expireNames(of found: Found, in parent: NodeID) {
    let real = found.realName.name
    // The directory's view may be locked by the calling thread.
    let shown = directories.views.view(of: parent)?.displayNameUnlessLocked(real)
    let names = Set([real, shown].compactMap(\.self))
    cached.kernel?.invalidate(names.map { StaleName($0, in: parent, mayBeDirectory: true) })
  }
}
