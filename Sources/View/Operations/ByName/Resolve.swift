import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// An entry that a name stands for.
struct Resolved {
  let realName: CName
  let kind: EntryKind
  let isHidden: Bool
  /// Nil where names are not projected.
  let slot: Projection.Slot?
  let byDisplayName: Bool
  /// Whether the name has other bytes than the entry's names and is only equal to one of them. (`matching`)
  var isMatch = false
  let nodeKind: NodeKind

  /// The type of the entry as seen by the client that gave the name.
  var apparentType: ApparentType {
    switch kind {
    case .file, .alias: .file
    case .directory: .directory
    case .package: nodeKind == .packageFile ? .package : .directory
    case .symlink, .other: .special
    }
  }

  /// What a real name stands for, where names are not projected.
  static func real(_ name: UnsafePointer<CChar>) -> Resolved {
    Resolved(
      realName: CName(copying: name), kind: .other, isHidden: false, slot: nil, byDisplayName: false,
      nodeKind: .plain)
  }
}

extension EntryKind {
  /// Whether the entry is a directory in the backing tree.
  var isDirectory: Bool { self == .directory || self == .package }

  /// The node that the display name of an entry leads to.
  func nodeKind(packages: PackageMode) -> NodeKind {
    switch self {
    case .package: packages == .file ? .packageFile : .plain
    case .alias: .alias
    case .file, .directory, .symlink, .other: .plain
    }
  }
}

/// The backing file that a name in a directory of the view stands for.
struct Found {
  let directory: DirectoryHandle
  let realName: CName
  var status: stat
  let nodeKind: NodeKind
  /// Whether the name is the entry's real name, or only equal to it.
  var byRealName = true
  /// Whether the name is only equal to one of the entry's names. Such a name is never cached: it is one of many, and a change
  /// of the entry could not invalidate it.
  var isMatch = false
  /// Whether the name stands for the same file until the watch on the directory reports a change.
  var isEntryCacheable = true
}

/// From names in the view to entries of the backing tree.
extension View {
  /// The entry that a name stands for in a projection; nil for hidden entries where they are denied. Equal bytes come first; a
  /// name that no entry has stands for the one entry whose name is equal to it by the option `matching`. Entries that are denied
  /// are not counted: that a name stands for none of several would reveal them.
  func resolve(_ name: UnsafePointer<CChar>, in projection: borrowing Projection) -> Resolved? {
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    var resolution = projection.resolve(Span(_unsafeElements: bytes))
    if resolution == nil,
      case .one(let match) = projection.matches(
        of: Span(_unsafeElements: bytes), includingHidden: options.hidden != .deny)
    {
      resolution = match
    }
    guard let resolution, let summary = projection.summary(at: resolution.slot) else { return nil }
    if summary.isHidden, options.hidden == .deny { return nil }
    let nodeKind = summary.kind.nodeKind(packages: options.packages)
    // The real name of a package leads to the directory.
    let isByRealName = summary.kind == .package && !resolution.byDisplayName
    return Resolved(
      realName: projection.withRealName(at: resolution.slot) { CName(bytes: $0) }, kind: summary.kind,
      isHidden: summary.isHidden, slot: resolution.slot, byDisplayName: resolution.byDisplayName,
      isMatch: resolution.isMatch, nodeKind: isByRealName ? .plain : nodeKind)
  }

  /// Resolves a name that is only looked at. (An operation that changes something prepares its names: ``PreparedName``.)
  ///
  /// A name that exists on disk and cannot be a package is resolved without reading the rest of the directory.
  func find(
    _ parent: NodeID, _ handle: DirectoryHandle, _ name: UnsafePointer<CChar>
  ) throws(Errno) -> Found {
    let view: DirectoryView
    if isPlainMirror {
      return try findReal(name, in: handle)
    } else if let known = currentView(of: parent) {
      view = known
    } else {
      if options.hidden != .deny {
        do throws(Errno) {
          let found = try findReal(name, in: handle)
          let type = FileType(mode: found.status.st_mode)
          let mayBePackage = type == .directory && inspector.mayBePackage(name)
          if !mayBePackage, type != .regular || options.aliases == .file { return found }
        } catch {
          // The directory is read only for a name that could be a display name, or equal to another name: a display name begins
          // with a period only where hidden entries are shown.
          guard error == .noSuchFileOrDirectory,
            name[0] != 0x2e || inspector.showsDotNames || mayMatch(name)
          else {
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
      return try findReal(name, in: handle)
    }
  }

  /// Whether a name may be equal to a name with other bytes.
  func mayMatch(_ name: UnsafePointer<CChar>) -> Bool {
    let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name)).bindMemory(to: UInt8.self)
    return options.matching.mayMatch(Span(_unsafeElements: bytes))
  }

  private func findReal(_ name: UnsafePointer<CChar>, in handle: DirectoryHandle) throws(Errno) -> Found {
    Found(
      directory: handle, realName: CName(copying: name), status: try handle.status(name), nodeKind: .plain)
  }

  private func find(_ name: UnsafePointer<CChar>, in view: DirectoryView) throws(Errno) -> Found {
    let found = try view.withCurrent { (projection) throws(Errno) in resolve(name, in: projection) }
    guard let found else {
      if strlen(name) > 255 { throw .fileNameTooLong }
      guard let unlisted = findUnlisted(name, in: view.handle) else { throw .noSuchFileOrDirectory }
      return unlisted
    }
    let status = try found.realName.withPointer { (name) throws(Errno) in try view.handle.status(name) }
    return Found(
      directory: view.handle, realName: found.realName, status: status, nodeKind: found.nodeKind,
      byRealName: found.isMatch ? !found.byDisplayName : found.realName.equals(name), isMatch: found.isMatch,
      isEntryCacheable: view.isWatched && !found.isMatch && found.nodeKind != .alias)
  }

  /// A directory that its file system finds by name and does not list: the snapshots of CephFS and of NFS servers (`.snap`,
  /// `.snapshot`), and below a mount in the tree what automount(8) mounts at the first look. It counts as hidden.
  private func findUnlisted(_ name: UnsafePointer<CChar>, in handle: DirectoryHandle) -> Found? {
    let isNested = handle.identity.device != source.device
    guard !handle.listsAllNames, name[0] == 0x2e || isNested && !inspector.mayBePackage(name),
      options.hidden != .deny,
      var found = try? findReal(name, in: handle), FileType(mode: found.status.st_mode) == .directory
    else { return nil }
    found.isEntryCacheable = false
    return found
  }
}
