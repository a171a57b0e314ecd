import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// A directory that an operation changes: open, with its view up to date and locked.
struct LockedDirectory {
  let node: NodeID
  let handle: DirectoryHandle
  /// Nil in a mirror, and where the directory may be changed but not read: then names are real names.
  let view: DirectoryView?
}

/// A name that a client gave for a change, resolved in a directory that stays locked until the change is made.
struct PreparedName {
  let directory: LockedDirectory
  let bytes: UnsafePointer<CChar>
  /// The same name.
  let typed: Name
  /// The entry that the name stands for. Nil where it stands for none, and where the directory has no view to resolve it.
  let entry: Resolved?

  /// The entry that a rename to the name replaces. That is none where the name is only equal to a name of the entry that is
  /// renamed: then its case or normalization changes.
  func entry(unlessRenamedFrom source: PreparedName) -> Resolved? {
    guard let entry, entry.isMatch, let renamed = source.entry, source.directory.view === directory.view,
      renamed.realName.withPointer(entry.realName.equals), strcmp(source.bytes, bytes) != 0
    else { return self.entry }
    return nil
  }

  /// The entry that the name stands for. Without a view the name is taken for a real name.
  func existing() throws(Errno) -> Resolved {
    if let entry { return entry }
    guard directory.view == nil else { throw .noSuchFileOrDirectory }
    return .real(bytes)
  }
}

/// The one way in for operations that change what a name stands for. Each of them
/// 1. refuses a directory that is no longer where the client's path led (`refuseIfMoved`, once for each request),
/// 2. prepares the name: opens and locks the directory, brings its view up to date, resolves the name,
/// 3. checks policy and protection (`refuseMaking`, `refuseRemoving`, `refuseMoving`), and plans the real name,
/// 4. takes the version of the directory, where its reply has an entry that the kernel may cache,
/// 5. makes its system call with the credentials of the client,
/// 6. records the change: node table, stale names of the kernel, directory view, sidecars,
/// 7. and, when nothing is locked any more, updates listings further up (`noteMarker`).
///
/// The callback then replies, and compares the version of the directory (`revalidateAfterReply`).
extension View {
  /// Runs `body` with a prepared name.
  func preparing<R: ~Copyable>(
    _ name: UnsafePointer<CChar>, in parent: NodeID, _ body: (PreparedName) throws(Errno) -> R
  ) throws(Errno) -> R {
    try changing(parent) { (directory) throws(Errno) in try body(prepared(name, in: directory)) }
  }

  /// The same for two names, whose directories may be one.
  func preparing<R: ~Copyable>(
    _ oldName: UnsafePointer<CChar>, in oldParent: NodeID, _ newName: UnsafePointer<CChar>,
    in newParent: NodeID, _ body: (PreparedName, PreparedName) throws(Errno) -> R
  ) throws(Errno) -> R {
    func run(_ old: LockedDirectory, _ new: LockedDirectory) throws(Errno) -> R {
      try body(prepared(oldName, in: old), prepared(newName, in: new))
    }
    if isPlainMirror {
      let old = try mirrored(oldParent)
      return try run(old, newParent == oldParent ? old : mirrored(newParent))
    }
    let oldView = try directoryView(oldParent)
    let newView = newParent == oldParent ? oldView : try directoryView(newParent)
    return try DirectoryView.changing(oldView, newView) { (areReadable) throws(Errno) in
      if !areReadable { try refuseUnreadable() }
      return try run(
        LockedDirectory(node: oldParent, handle: oldView.handle, view: areReadable ? oldView : nil),
        LockedDirectory(node: newParent, handle: newView.handle, view: areReadable ? newView : nil))
    }
  }

  /// Runs a change of one directory with its view up to date and locked.
  func changing<R: ~Copyable>(
    _ parent: NodeID, _ body: (LockedDirectory) throws(Errno) -> R
  ) throws(Errno) -> R {
    if isPlainMirror { return try body(mirrored(parent)) }
    let view = try directoryView(parent)
    return try view.changing { (isReadable) throws(Errno) in
      if !isReadable { try refuseUnreadable() }
      return try body(LockedDirectory(node: parent, handle: view.handle, view: isReadable ? view : nil))
    }
  }

  /// A directory of a mirror.
  private func mirrored(_ node: NodeID) throws(Errno) -> LockedDirectory {
    LockedDirectory(node: node, handle: try directory(node), view: nil)
  }

  private func prepared(_ name: UnsafePointer<CChar>, in directory: LockedDirectory) -> PreparedName {
    PreparedName(
      directory: directory, bytes: name, typed: Name(copying: name),
      entry: directory.view.flatMap { resolve(name, in: $0.projection) })
  }

  /// In a directory that may be changed but not read, no name can be told from one that `hidden=deny` hides.
  private func refuseUnreadable() throws(Errno) {
    if options.hidden == .deny { throw .permissionDenied }
  }

  // MARK: Policy

  /// Called before an entry is made under a name.
  ///
  /// - Throws: EEXIST when the name stands for an entry, EACCES when the new entry would be denied, EPERM in a protected place.
  func refuseMaking(_ kind: EntryKind, _ name: PreparedName) throws(Errno) {
    if name.entry != nil { throw .fileExists }
    try refuseIfDenied(kind, name)
    try refuseAdding(to: name.directory.node)
  }

  /// Refuses a name that `hidden=deny` hides from an entry of that kind, which could not be reached again.
  ///
  /// A name that is only equal to that of a hidden entry is free, unless a rule hides it, too. The new entry is another file,
  /// which has that name to itself, and the hidden one stays out of reach: names that are equal to both lead to the new one. To
  /// refuse it would keep a listed file that is moved away, as many programs do when they save, from being made again. Where the
  /// backing tree takes both names for one, it refuses the creation, which is exclusive under `hidden=deny`.
  ///
  /// - Throws: EACCES.
  func refuseIfDenied(_ kind: EntryKind, _ name: PreparedName) throws(Errno) {
    guard options.hidden == .deny, let view = name.directory.view else { return }
    // An entry that exists but does not resolve is denied too, whatever rule hides it.
    if name.entry == nil && view.projection.slot(realName: name.typed.bytes.span) != nil
      || view.wouldHide(name.typed, kind)
    {
      throw .permissionDenied
    }
  }

  /// What the plans of real names depend on in a directory.
  func destination(_ directory: LockedDirectory) -> some DestinationFacts {
    DestinationDirectory(view: directory.view, inspector: inspector)
  }

  // MARK: Afterwards

  /// Updates the listings that a new or changed entry affects further up: a `.localized` marker changes how its directory is
  /// listed one level up, and `Contents/Info.plist` how the directory around both is. Called with no directory view locked.
  func noteMarker(_ name: UnsafePointer<CChar>, in parent: NodeID) {
    guard parent != NodeTable.root, inspector.mayChangeListingOfParent(name),
      let link = nodes.link(of: parent)
    else { return }
    currentView(of: link.parent)?.noteChangeInside(link.name.name)
    invalidateNames(of: link)
    guard strcmp(name, "Info.plist") == 0, link.name.equals("Contents"),
      let above = nodes.link(of: link.parent)
    else { return }
    currentView(of: above.parent)?.noteChangeInside(above.name.name)
    invalidateNames(of: above)
  }
}

private struct DestinationDirectory: DestinationFacts {
  let view: DirectoryView?
  let inspector: EntryInspector

  func hasKnownExtension(_ name: Name) -> Bool { inspector.hasKnownExtension(name) }

  func hasEntry(_ name: Name) -> Bool { view?.projection.slot(realName: name.bytes.span) != nil }

  func hasMatch(_ name: Name, besides others: [Name]) -> Bool {
    view?.projection.hasMatch(of: name.bytes.span, besides: others, includingHidden: reachesHidden) ?? false
  }

  func canShow(_ name: Name) -> Bool {
    guard let view else { return false }
    return !view.projection.isClaimed(name.bytes.span)
      && view.projection.matches(of: name.bytes.span, includingHidden: reachesHidden) == .none
      && !view.site.role.contains(.insidePackage)
  }

  private var reachesHidden: Bool { inspector.options.hidden != .deny }
}
