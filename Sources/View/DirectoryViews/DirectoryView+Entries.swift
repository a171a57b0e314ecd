import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Inspects single entries after changes through the mount or in the backing tree.
extension DirectoryView {
  /// Inspects one entry again after a change that was made inside `changing`. The client that made the change knows of it, so
  /// only its effects on other entries are reported.
  func reconcile(_ name: Name) {
    inspect(name, isOwn: true)
    noteReconciled(name)
  }

  /// Updates one entry after such a change, with the status that was found since.
  func reconcile(_ name: Name, _ found: stat) {
    upsert(name, found, isOwn: true)
    noteReconciled(name)
  }

  /// Updates the projection after an entry was removed inside `changing`.
  func reconcileRemoved(_ name: Name) {
    // A complete watch reports an entry that another process has put in its place since.
    if comparesTimes { inspect(name, isOwn: true) } else { remove(name, true) }
    noteReconciled(name)
  }

  private func noteReconciled(_ name: Name) {
    inspectSidecarOwner(name)
    if changeQueue.isCollecting { noteSidecarChange(name) }
    // The new times would also cover a change that another process made just before this one, or at the same time.
    if comparesTimes {
      state.times.own = try? FileTimes(handle.directory.status())
      state.times.mayHaveMissed = true
    }
  }

  /// Inspects the file of an AppleDouble sidecar, whose listing depends on the sidecar.
  func inspectSidecarOwner(_ name: Name) {
    if let file = name.sidecarOwner { inspect(file) }
  }

  /// Has the change of a sidecar reported as one of its file's attributes.
  func noteSidecarChange(_ name: Name) {
    if let file = name.sidecarOwner { state.baseline.metadata.insert(file) }
  }

  func inspect(_ name: Name, isOwn: Bool = false) {
    let cName = CName(name)
    do throws(Errno) {
      let found = try cName.withPointer { (name) throws(Errno) in try handle.status(name) }
      state.unread.remove(name)
      upsert(name, found, isOwn: isOwn)
    } catch {
      // Any other error prevents the inspection, but the entry is still there.
      guard error == .noSuchFileOrDirectory else { return noteUnread(name) }
      state.unread.remove(name)
      if let other = otherSpelling(of: name) { inspect(other, isOwn: isOwn) } else { remove(name, isOwn) }
    }
  }

  private func noteUnread(_ name: Name) {
    if state.unread.count < Self.mostUnread {
      state.unread.insert(name)
    } else if state.isRead {
      // A listing has the entries without their status.
      state.reading = .outdated
    }
  }

  /// How many are inspected one by one. Beyond it the directory is read again.
  static let mostUnread = 64

  /// The one entry of an equal name, where no entry has these bytes. A file system that normalizes names, such as HFS+, reports a
  /// change by the name that was used, which need not be the name that it lists, or the one that an entry was made with.
  private func otherSpelling(of name: Name) -> Name? {
    guard state.projection.matching.mayMatch(name.bytes.span),
      state.projection.slot(realName: name.bytes.span) == nil,
      case .one(let match) = state.projection.matches(of: name.bytes.span)
    else { return nil }
    return state.projection.realName(at: match.slot)
  }

  private func upsert(_ name: Name, _ found: stat, isOwn: Bool) {
    if let other = otherSpelling(of: name),
      found.st_nlink == 1 || FileType(mode: found.st_mode) == .directory,
      CName(other).withPointer({ (try? handle.status($0)).map(FileIdentity.init) }) == FileIdentity(found)
    {
      // Only a listing tells which of the two it is.
      return noteAllChanged()
    }
    upsert(name, FileType(mode: found.st_mode), inode: UInt64(found.st_ino), found, isOwn)
    if !isOwn, changeQueue.isCollecting, nodes.knowsRemovedDirectory(of: found) {
      state.baseline.remade.insert(name)
    }
  }

  /// - Parameter found: the status of the entry, if the calling code has it.
  func upsert(
    _ name: Name, _ type: FileType, inode: UInt64, _ found: stat? = nil, _ isOwn: Bool = false
  ) {
    // The mount point must not be entered, not even to see how it would be shown. Nor may another file system, which may not
    // respond: `openBeneath` never enters one, but attributes are read by a path.
    let isCovered =
      handle.holdsMountPoint && CName(name).withPointer { handle.isCovered($0) }
      || inspector.metadata.isPresent
        && (found ?? CName(name).withPointer { try? handle.status($0) }).map(handle.isMounted) ?? false
    // Get the times before the inspection: any later change makes them differ at the next comparison.
    let times =
      comparesTimes && type == .directory && !isCovered
      ? found.map { FileTimes($0) } ?? CName(name).withPointer { try? FileTimes(handle.status($0)) } : nil
    if let file = name.sidecarOwner { state.namesWithSidecar.insert(file) }
    var sources: [[UInt8]] = []
    let child =
      isCovered
      ? Projection.Child(realName: name, kind: .directory, inode: inode, entryType: type.direntType)
      : inspector.inspect(
        name: name, type: type, inode: inode, in: handle.directory, at: site, facts: state.facts,
        sideFiles: sideFiles(of: name), sources: &sources)
    recordListing(of: name, becoming: child, isOwn)
    let slot = state.projection.upsert(child)
    if let found { noteMounted(found, slot) }
    // Whether it is a package may have changed, even if it was changed back before this inspection: a view of its inside, made in
    // between, shows it as that of a package.
    if !isOwn, state.isRead, type == .directory, CName(name).withPointer({ inspector.mayBePackage($0) }) {
      changeQueue.noteInspected(identity(slot, inode: inode))
    }
    if isOwn { state.ownEffects.altered.append(slot) }
    if !isOwn, state.isRead, changeQueue.isCollecting, state.baseline.before.index(forKey: slot) == nil {
      // The entry is new, so it was not listed before.
      state.baseline.before.updateValue(nil, forKey: slot)
    }
    if comparesTimes { state.times.inside[slot] = times }
    watchInside(name, slot, sources)
  }

  func remove(_ name: Name, _ isOwn: Bool = false) {
    recordListing(of: name, becoming: nil, isOwn)
    if !state.mounted.isEmpty, let slot = state.projection.slot(realName: name.bytes.span) {
      state.mounted[slot] = nil
    }
    state.projection.remove(realName: name)
    if !state.namesWithSidecar.isEmpty, let file = name.sidecarOwner { state.namesWithSidecar.remove(file) }
  }

  /// Whether a new entry of that name and kind would be hidden, for code that runs inside `changing`.
  func wouldHide(_ name: Name, _ kind: EntryKind) -> Bool {
    inspector.isHiddenByName(name, kind, at: site, facts: state.facts)
  }

  /// Whether netatalk keeps metadata in this directory, for code that runs inside `changing`.
  var hasNetatalkDirectory: Bool { state.facts.hasNetatalkDirectory }

  /// Whether a file `._name` accompanies an entry, for code that runs inside `changing`.
  func hasSidecar(_ name: Name) -> Bool { hasSidecars && state.namesWithSidecar.contains(name) }

  /// Whether there is any such file.
  var hasSidecars: Bool { !state.namesWithSidecar.isEmpty }

  /// The side files that an entry may have, for code that has no directory view locked.
  func currentSideFiles(of name: Name) throws(Errno) -> FinderMetadata.SideFiles {
    lock.lock()
    defer { unlock() }
    try refresh()
    return sideFiles(of: name)
  }

  /// The same as of the last look.
  func lastSideFiles(of name: Name) -> FinderMetadata.SideFiles {
    lock.lock()
    defer { lock.unlock() }
    return sideFiles(of: name)
  }

  /// The side files that an entry may have by the names in the directory, for code that runs inside `changing`; nil where it has
  /// not been read. Those of netatalk count even where the view does not read them.
  func listedSideFiles(of name: Name) -> FinderMetadata.SideFiles? {
    guard state.isRead else { return nil }
    var result: FinderMetadata.SideFiles = hasSidecar(name) ? .appleDouble : []
    let netatalk = state.projection.slot(realName: View.netatalkDirectory.name.bytes.span)
    if netatalk != nil { result.insert(.netatalk) }
    return result
  }

  private func sideFiles(of name: Name) -> FinderMetadata.SideFiles {
    var result: FinderMetadata.SideFiles = state.facts.hasNetatalkDirectory ? .netatalk : []
    if state.namesWithSidecar.isEmpty { return result }
    if state.namesWithSidecar.contains(name) { result.insert(.appleDouble) }
    if let file = name.sidecarOwner, state.projection.slot(realName: file.bytes.span) != nil {
      result.insert(.ofSibling)
    }
    return result
  }

  /// Watches the directories of the tables that an entry's localized name comes from. Few entries have any.
  private func watchInside(_ name: Name, _ slot: Projection.Slot, _ sources: [[UInt8]]) {
    guard let watch,
      !sources.isEmpty || !state.sideWatches.entries.isEmpty && state.sideWatches.entries[slot] != nil
    else { return }
    let old = state.sideWatches.entries.removeValue(forKey: slot) ?? []
    let doPermissionsAffectListing = inspector.doPermissionsAffectListing
    var new: [(path: [UInt8], subscription: ChangeWatch.Subscription)] = []
    for path in sources where !new.contains(where: { $0.path == path }) {
      let source =
        path.first == 0x2f
        ? inspector.metadata.open(beneathSource: path.dropFirst())
        : path.withCName { try? handle.directory.openBeneath($0, O_RDONLY | O_DIRECTORY) }
      let isMetadata =
        path.starts(with: "/\(SambaDepot.directory)/".utf8)
        || path.suffix(12).elementsEqual(".AppleDouble".utf8)
      // Of a directory on the way to an alias' target only its entries matter, and where hidden ones are denied, what hides them.
      let isTarget = path.first == 0x2f && !isMetadata && inspector.options.hidden != .deny
      guard let source,
        let subscription = try? watch.watch(
          Directory(descriptor: source.rawValue),
          { [weak self] change in
            switch change {
            case .directoryAttributes where !doPermissionsAffectListing: return
            // Metadata that is still being written looks malformed.
            case .modification where isMetadata: return
            default: if isTarget, !change.isOfEntries { return }
            }
            if isMetadata { self?.noteMetadataChange(of: name) } else { self?.noteChangeInside(name) }
          })
      else { continue }
      new.append((path, subscription))
    }
    if !new.isEmpty { state.sideWatches.entries[slot] = new }
    // The watch does not report changes that were made before it began.
    if new.map(\.path) != old.map(\.path) { noteChangeInside(name) }
  }
}
