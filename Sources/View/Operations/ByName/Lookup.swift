import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The content of a lookup reply: a file as the kernel gets to know it.
public struct Entry: Sendable {
  public let id: NodeID
  public let generation: UInt64
  public fileprivate(set) var attributes: stat
  /// The version of the directory that permits the kernel to cache the name; nil when the kernel must not cache it.
  public var nameLease: CacheLease? = nil
  /// The same for the attributes.
  public var attributesLease: CacheLease? = nil

  /// The same entry, without permission to cache what has changed since the lookup began. A change after that, while the reply
  /// is on its way, is invalidated after the reply (``View/settle(_:_:_:)``).
  public var current: Entry {
    var entry = self
    if nameLease?.isBroken ?? false { entry.nameLease = nil }
    if attributesLease?.isBroken(for: id) ?? false { entry.attributesLease = nil }
    return entry
  }

  /// The same file, of which the kernel must cache nothing.
  public var unkept: Entry { Entry(id: id, generation: generation, attributes: attributes) }

  /// A negative entry: the name stands for nothing, and the kernel may cache that.
  static func absent(_ lease: CacheLease) -> Entry {
    Entry(id: 0, generation: 0, attributes: stat(), nameLease: lease)
  }
}

extension View {
  /// Looks up `name` in `parent`. The kernel's lookup count (nlookup) of the node rises by one.
  public func lookup(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    let handle = try directory(parent)
    return try lookup(parent, handle, name, lease: cached.lease(parent, handle))
  }

  /// The same; returns ``Entry/absent(_:)`` when the name stands for nothing and the kernel may cache that.
  public func lookupOrAbsence(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) -> Entry {
    staleNames.goesOn(caller.process, in: parent)
    let handle = try directory(parent)
    let lease = cached.lease(parent, handle)
    do throws(Errno) {
      let entry = try lookup(parent, handle, name, lease: lease)
      movedNodes.noteLookup(of: entry.id, by: caller.process)
      // A client that walks through a tree looks up its directories in any case, so those lookups are not counted.
      if FileType(mode: entry.attributes.st_mode) != .directory {
        lookers.looksUp(in: parent, caller.process)
      }
      return entry
    } catch {
      guard error == .noSuchFileOrDirectory, let lease, mayKeepAbsence(of: name, in: parent, lease) else {
        throw error
      }
      return .absent(lease)
    }
  }

  private func lookup(
    _ parent: NodeID, _ handle: DirectoryHandle, _ name: UnsafePointer<CChar>, lease: CacheLease?
  ) throws(Errno) -> Entry {
    let found = try find(parent, handle, name)
    let byRealName = found.realName.equals(name)
    return try entry(found, in: parent, byRealName: byRealName, lease: lease)
  }

  /// Subtracts `count` from the kernel's lookup count (nlookup) of a node. (FORGET)
  public func forget(_ id: NodeID, count: UInt64) { nodes.forget(id, count: count) }

  /// Makes the lookup reply for a file that was found. The nlookup of its node rises by one.
  ///
  /// - Parameters:
  ///   - lease: the version of the directory, taken before anything was read.
  ///   - sameness: whether the file is the one that the kernel knows, if the kernel's was seen at another place.
  /// - Throws: EINTR when the walk of a package was interrupted. The nlookup is then as before.
  func entry(
    _ found: Found, in parent: NodeID, byRealName: Bool = true, lease: CacheLease? = nil,
    sameness: NodeTable.Sameness = .unknown
  ) throws(Errno) -> Entry {
    let type = FileType(mode: found.status.st_mode)
    func remember(_ sameness: NodeTable.Sameness) -> NodeTable.Remembered? {
      found.realName.withPointer {
        nodes.remember(
          FileIdentity(found.status), type, facet: found.facet, parent: parent, name: $0,
          byRealName: byRealName, isOnlyName: found.status.st_nlink <= 1, sameness: sameness)
      }
    }
    let node = remember(sameness) ?? remember(self.sameness(of: found.status, found.facet))!
    if node.hasMoved { movedNodes.noteMove(of: node.id) }
    if let gone = node.gone { cached.kernel?.expireAttributes(of: gone, in: nil) }
    if ![.regular, .directory, .symlink].contains(type) { noteSpecial(node.id, found.status) }
    let attributes: stat
    do throws(Errno) {
      attributes = try found.realName.withPointer { (name) throws(Errno) in
        try present(found.status, facet: found.facet, name: name, in: found.directory.directory)
      }
    } catch {
      forget(node.id, count: 1)
      throw error
    }
    var entry = Entry(id: node.id, generation: node.generation, attributes: attributes)
    guard let lease else { return entry }
    if type == .directory, found.facet == .plain {
      // The version of the directory itself, taken here, covers what changes from now on.
      if let own = cached.lease(node.id),
        let now = found.realName.withPointer({ try? found.directory.status($0) }),
        FileIdentity(now) == FileIdentity(found.status)
      {
        entry.attributes = present(now)
        entry.attributesLease = own
      }
    } else if mayKeepAttributes(of: node.id, found.status, facet: found.facet, in: found.directory) {
      entry.attributesLease = lease
    }
    // LINK names a node, and the last lookup determines which of the node's names is meant. So no name of a file with several
    // links is cached.
    if type == .directory || found.status.st_nlink <= 1, found.isNameKept,
      UInt64(found.status.st_dev) == found.directory.identity.device
    {
      entry.nameLease = lease
    }
    return entry
  }
}
