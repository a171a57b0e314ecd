import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// A file as the kernel is told of it.
public struct Entry: Sendable {
  public let id: NodeID
  public let generation: UInt64
  public fileprivate(set) var attributes: stat
  /// For as long as it is not broken the kernel may keep that the name stands for this; nil when it may not.
  public var nameLease: CacheLease? = nil
  /// The same of the attributes.
  public var attributesLease: CacheLease? = nil

  /// The same with nothing cached that changed while it was looked at. What changes after that, while the reply is on its way,
  /// is invalidated after it (``View/settle(_:_:_:)``).
  public var current: Entry {
    var entry = self
    if nameLease?.isBroken ?? false { entry.nameLease = nil }
    if attributesLease?.isBroken(for: id) ?? false { entry.attributesLease = nil }
    return entry
  }

  /// The same file, of which the kernel may keep nothing.
  public var unkept: Entry { Entry(id: id, generation: generation, attributes: attributes) }

  /// No file: a name stands for nothing, which the kernel may keep.
  static func absent(_ lease: CacheLease) -> Entry {
    Entry(id: 0, generation: 0, attributes: stat(), nameLease: lease)
  }
}

/// What a name in a directory of the view stands for.
struct Found {
  let directory: DirectoryHandle
  let realName: CName
  let status: stat
  let facet: Facet
  /// Whether only news of the directory can make the name stand for something else.
  var isNameKept = true
}

extension View {
  /// What `name` stands for in `parent`, one more time known to the kernel.
  public func lookup(_ parent: NodeID, _ name: UnsafePointer<CChar>) throws(Errno) -> Entry {
    let handle = try directory(parent)
    return try lookup(parent, handle, name, lease: cached.lease(parent, handle))
  }

  /// The same; ``Entry/absent(_:)`` when the name stands for nothing and the kernel may keep that.
  public func lookupOrAbsence(
    _ parent: NodeID, _ name: UnsafePointer<CChar>, caller: Caller
  ) throws(Errno) -> Entry {
    staleNames.goesOn(caller.process, in: parent)
    let handle = try directory(parent)
    let lease = cached.lease(parent, handle)
    do throws(Errno) {
      let entry = try lookup(parent, handle, name, lease: lease)
      movedNodes.noteLookup(of: entry.id, by: caller.process)
      // Whoever walks through a tree looks its directories up in any case.
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
    return entry(found, in: parent, byRealName: byRealName, lease: lease)
  }

  /// What a name stood for that is gone from the view, one more time known to the kernel: the node that it knows, if it
  /// knows one by that name, else one that stands for nothing.
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
      // The kernel takes the size for that of the file, which a client reads on through what it has open.
      attributes = present(status)
    }
    let identity = isGone ? item.identity : Self.nothing
    let node = CName(item.realName).withPointer {
      nodes.remember(
        identity, item.backingType, facet: item.facet, parent: item.directory, name: $0, sameness: .linked)!
    }
    return Entry(id: node.id, generation: node.generation, attributes: attributes)
  }

  /// What others have renamed, one more time known to the kernel: the node that it knows, which it is to rename too. Until it
  /// has, whoever has come to that node by the old name must not be led to the new one.
  public func entryOfMoved(_ item: ListedItem) throws(Errno) -> Entry {
    let handle = try directory(item.directory)
    return try CName(item.name).withPointer { (name) throws(Errno) in
      let found = try find(item.directory, handle, name)
      return entry(found, in: item.directory, byRealName: found.realName.equals(name), sameness: .moving)
    }
  }

  /// The kernel is renaming what others have renamed.
  public func noteMoved(_ old: ListedItem, to new: ListedItem) {
    // First: an operation that came by the old name must not find the node moved and go on.
    if let node = nodes.node(of: new.identity, facet: new.facet) {
      movedNodes.noteMove(of: node, isReplayed: true)
      // Nor must a client that knows the node by its new name come to it by the old one, before the kernel has moved that.
      invalidate([
        StaleName(old.name, in: old.directory, mayBeDirectory: true, node: node)
      ])
    }
    nodes.moved(
      new.identity, facet: new.facet, from: (old.directory, CName(old.realName)),
      to: (new.directory, CName(new.realName)))
  }

  /// Whether the kernel knows a file by that name alone which is no longer there. What is only hidden now, or is somewhere
  /// else, is not gone; nor is what is open and has another name: whoever comes by that is to meet who has it locked or mapped.
  private func isGone(_ item: ListedItem) -> Bool {
    // Its inode number may be another file's by now.
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

  /// Whether a directory that the kernel may know is where it was, reached by its real name, though listed otherwise or not at
  /// all: its dentry must stay valid.
  public func isStillDirectory(_ item: ListedItem) -> Bool {
    guard item.type == .directory, let node = nodes.node(of: item.identity),
      let location = nodes.location(of: node)
    else { return false }
    return options.hidden != .deny && holds(item.directory, CName(item.realName), location)
  }

  /// What is gone from the view is gone for the kernel too: a new file with its inode number is another node. That may be
  /// known by now, under another name or the same.
  public func forgetVanished(_ item: ListedItem) {
    for identity in isGone(item) ? [item.identity, Self.nothing] : [Self.nothing] {
      _ = CName(item.realName).withPointer {
        nodes.removed(identity, facet: item.facet, from: item.directory, name: $0, isLast: true)
      }
    }
  }

  /// No file has this identity.
  private static let nothing = FileIdentity(device: .max, inode: .max)

  /// Where the view shows a directory: display names from the root on, separated by `/`; nil when it is nowhere.
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

  /// The name that leads to a directory as one: a package's display name leads to a file.
  private func shownName(of location: NodeTable.Location) -> Name {
    let real = location.name.name
    return shownName(real, in: location.parent, unless: .package) ?? real
  }

  /// The display name of an entry, where a view of the directory is at hand and shows it.
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

  /// The kernel gives back `count` of the times it was told of a node.
  public func forget(_ id: NodeID, count: UInt64) { nodes.forget(id, count: count) }

  /// Tells the kernel of what was found.
  ///
  /// - Parameters:
  ///   - lease: of the directory, taken before anything was looked at.
  ///   - sameness: whether it is the file that the kernel knows, if that was seen somewhere else.
  func entry(
    _ found: Found, in parent: NodeID, byRealName: Bool = true, lease: CacheLease? = nil,
    sameness: NodeTable.Sameness = .unknown
  ) -> Entry {
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
    let attributes = found.realName.withPointer {
      present(found.status, facet: found.facet, name: $0, in: found.directory.directory)
    }
    var entry = Entry(id: node.id, generation: node.generation, attributes: attributes)
    guard let lease else { return entry }
    if type == .directory, found.facet == .plain {
      // Its own tells of what changes from now on.
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
    // A link is made from a node, and which of its names was meant is told by the last look-up: only one is kept.
    if type == .directory || found.status.st_nlink <= 1, found.isNameKept,
      UInt64(found.status.st_dev) == found.directory.identity.device
    {
      entry.nameLease = lease
    }
    return entry
  }

  /// Resolves a name by the rules of the view: a display name first, then a real name.
  ///
  /// A name that exists on disk and cannot be a package needs no look at the rest of the directory.
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
          // Only a name that could be somebody's display name is worth reading the directory for: a display name
          // begins with a period only where hidden entries are shown.
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
      // A directory that may be entered but not read: its names are real names.
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

  /// What a name stands for in a projection, hidden entries left out where they are denied.
  func resolve(_ name: UnsafePointer<CChar>, in projection: borrowing Projection) -> Resolved? {
    guard let (realName, facet, resolution) = target(of: name, in: projection),
      let child = projection.child(at: resolution.slot)
    else { return nil }
    return Resolved(
      realName: realName, child: child, slot: resolution.slot, byDisplayName: resolution.byDisplayName,
      facet: facet)
  }

  /// The same with nothing but what a look-up must know.
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
