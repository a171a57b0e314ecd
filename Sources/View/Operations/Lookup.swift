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

/// The backing file that a name in a directory of the view stands for.
struct Found {
  let directory: DirectoryHandle
  let realName: CName
  let status: stat
  let facet: Facet
  /// Whether the name stands for the same file until the watch on the directory reports a change.
  var isNameKept = true
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

  /// The entry of a name that is gone from the view. The nlookup of its node rises by one. This is the node that the kernel
  /// knows by that name, or else a node that stands for no file.
  public func entryOfVanished(_ item: ListedItem) -> Entry {
    var attributes = stat()
    attributes.st_mode = item.type.modeBits | 0o700
    attributes.st_nlink = 1
    attributes.st_uid = geteuid()
    attributes.st_gid = getegid()
    attributes.st_ino = inodeNumber(item.identity, item.facet)
    let isGone = isGone(item)
    if isGone, let node = nodes.node(of: item.identity, facet: item.facet),
      let open = openNodes.file(of: node), let status = try? fileStatus(open.descriptor.rawValue)
    {
      // The kernel takes this size for the file's, and a client may still read the file through an open descriptor.
      attributes = present(status)
    }
    let identity = isGone ? item.identity : Self.nothing
    let node = CName(item.realName).withPointer {
      nodes.remember(
        identity, item.backingType, facet: item.facet, parent: item.directory, name: $0, sameness: .linked)!
    }
    return Entry(id: node.id, generation: node.generation, attributes: attributes)
  }

  /// The entry of a file that another process has renamed in the backing tree. The nlookup of its node rises by one. The kernel
  /// knows the node, and is to rename it too. Until it has done that, a client that came to the node by the old name must not
  /// be led to the new one.
  public func entryOfMoved(_ item: ListedItem) throws(Errno) -> Entry {
    let handle = try directory(item.directory)
    return try CName(item.name).withPointer { (name) throws(Errno) in
      let found = try find(item.directory, handle, name)
      return try entry(found, in: item.directory, byRealName: found.realName.equals(name), sameness: .moving)
    }
  }

  /// Records that the kernel is replaying a rename that another process made in the backing tree.
  public func noteMoved(_ old: ListedItem, to new: ListedItem) {
    // Must come first: a request of a client that came by the old name must not find the node moved and go on.
    if let node = nodes.node(of: new.identity, facet: new.facet) {
      movedNodes.noteMove(of: node, isReplayed: true)
      // Nor may a client that knows the node by its new name come to it by the old one, before the kernel has moved the dentry.
      invalidate([
        StaleName(old.name, in: old.directory, mayBeDirectory: true, node: node)
      ])
    }
    nodes.moved(
      new.identity, facet: new.facet, from: (old.directory, CName(old.realName)),
      to: (new.directory, CName(new.realName)))
  }

  /// Whether a file that the kernel knows by that name alone is gone. A file that is only hidden now, or is at another place,
  /// is not gone. Nor is an open file that has another name: a client that comes by the lost name must still meet the locks and
  /// mappings of the processes that have the file open.
  private func isGone(_ item: ListedItem) -> Bool {
    // The inode number may belong to another file by now.
    guard let node = nodes.node(of: item.identity, facet: item.facet),
      let location = nodes.location(of: node), location.type == item.backingType,
      location.parent == item.directory, location.name.name == item.realName
    else { return false }
    if holds(location.parent, location.name, location) { return false }
    guard let open = openNodes.file(of: node), let status = try? fileStatus(open.descriptor.rawValue) else {
      return true
    }
    return status.st_nlink == 0
  }

  /// Whether a directory that the kernel may know is still at its place under its real name, though it is listed differently or
  /// not at all: its dentry must stay valid.
  public func isStillDirectory(_ item: ListedItem) -> Bool {
    guard item.type == .directory, let node = nodes.node(of: item.identity),
      let location = nodes.location(of: node)
    else { return false }
    return options.hidden != .deny && holds(item.directory, CName(item.realName), location)
  }

  /// Orphans the node of a file that is gone from the view: a new file with its inode number gets another node. The kernel may
  /// know that new file by now, under the same name or another one.
  public func forgetVanished(_ item: ListedItem) {
    for identity in isGone(item) ? [item.identity, Self.nothing] : [Self.nothing] {
      _ = CName(item.realName).withPointer {
        nodes.removed(identity, facet: item.facet, from: item.directory, name: $0, isLast: true)
      }
    }
  }

  /// No file has this identity.
  private static let nothing = FileIdentity(device: .max, inode: .max)

  /// The path of a directory in the view: display names from the root on, separated by `/`; nil when the directory has no
  /// place.
  public func path(of id: NodeID) -> [UInt8]? {
    var path: [UInt8] = []
    var current = id
    var steps = 0
    while current != NodeTable.root {
      guard let location = nodes.location(of: current), steps < 65_536 else { return nil }
      let name = shownName(of: location)
      path = path.isEmpty ? name.bytes : name.bytes + [0x2f] + path
      current = location.parent
      steps += 1
    }
    return path
  }

  /// The name that leads to the directory itself: a package's display name leads to a file.
  private func shownName(of location: NodeTable.Location) -> Name {
    let real = location.name.name
    return shownName(real, in: location.parent, unless: .package) ?? real
  }

  /// The display name of an entry; nil where no view of the directory is available, or the view does not show the entry.
  func shownName(_ real: Name, in parent: NodeID, unless kind: EntryKind? = nil) -> Name? {
    guard !isPlainMirror, let view = currentView(of: parent) else { return nil }
    let shown = try? view.withCurrent { (projection) -> Name? in
      guard let slot = projection.slot(realName: real.bytes.span),
        let summary = projection.summary(at: slot), !summary.isHidden, summary.kind != kind
      else { return nil }
      return projection.displayName(at: slot)
    }
    return shown.flatMap { $0 }
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

  /// A name that exists on disk and cannot be a package is resolved without reading the rest of the directory.
  func find(
    _ parent: NodeID, _ handle: DirectoryHandle, _ name: UnsafePointer<CChar>
  ) throws(Errno) -> Found {
    let view: DirectoryView
    if isPlainMirror {
      return try plain(name, in: handle)
    } else if let known = currentView(of: parent) {
      view = known
    } else {
      if options.hidden != .deny {
        do throws(Errno) {
          let status = try handle.status(name)
          let mayBePackage = FileType(mode: status.st_mode) == .directory && inspector.mayBePackage(name)
          if !mayBePackage {
            return Found(directory: handle, realName: CName(copying: name), status: status, facet: .plain)
          }
        } catch {
          // The directory is read only for a name that could be a display name: a display name begins with a period only where
          // hidden entries are shown.
          guard error == .noSuchFileOrDirectory, name[0] != 0x2e || inspector.showsDotNames else {
            throw error
          }
        }
      }
      view = try directoryView(parent)
    }
    do throws(Errno) {
      return try find(name, in: view)
    } catch {
      // The client may search the directory but not read it: its names are real names.
      guard error == .permissionDenied, options.hidden != .deny else { throw error }
      return try plain(name, in: handle)
    }
  }

  private func plain(_ name: UnsafePointer<CChar>, in handle: DirectoryHandle) throws(Errno) -> Found {
    Found(
      directory: handle, realName: CName(copying: name), status: try handle.status(name), facet: .plain)
  }

  private func find(_ name: UnsafePointer<CChar>, in view: DirectoryView) throws(Errno) -> Found {
    let found = try view.withCurrent { (projection) throws(Errno) in target(of: name, in: projection) }
    guard let found else {
      if strlen(name) > 255 { throw .fileNameTooLong }
      throw .noSuchFileOrDirectory
    }
    let status = try found.realName.withPointer { (name) throws(Errno) in try view.handle.status(name) }
    return Found(
      directory: view.handle, realName: found.realName, status: status, facet: found.facet,
      isNameKept: view.isWatched)
  }

  /// The entry that a name stands for in a projection; nil for hidden entries where they are denied.
  func resolve(_ name: UnsafePointer<CChar>, in projection: borrowing Projection) -> Resolved? {
    guard let (realName, facet, resolution) = target(of: name, in: projection),
      let child = projection.child(at: resolution.slot)
    else { return nil }
    return Resolved(
      realName: realName, child: child, slot: resolution.slot, byDisplayName: resolution.byDisplayName,
      facet: facet)
  }

  /// The same, limited to what a lookup needs.
  private func target(
    of name: UnsafePointer<CChar>, in projection: borrowing Projection
  ) -> (realName: CName, facet: Facet, Projection.Resolution)? {
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    guard let resolution = projection.resolve(Span(_unsafeElements: bytes)),
      let summary = projection.summary(at: resolution.slot)
    else { return nil }
    if summary.isHidden, options.hidden == .deny { return nil }
    let showsAsFile = summary.kind == .package && resolution.byDisplayName && options.packages == .file
    let realName = projection.withRealName(at: resolution.slot) { CName(bytes: $0) }
    return (realName, showsAsFile ? .packageFile : .plain, resolution)
  }
}

/// An entry of a projection that a name stands for.
struct Resolved {
  let realName: CName
  let child: Projection.Child
  let slot: Projection.Slot
  let byDisplayName: Bool
  let facet: Facet
}
