import BackingTree
import DisplayNames
import Glibc
import Synchronization
import SystemPackage

/// Reads the directory, and watches the files that decide how it is read.
extension DirectoryView {
  /// Adds or removes the one entry that stands for all entries hidden as an application's data.
  func updateContainerData() {
    var isShown = false
    if ContainerData.isShown(by: inspector.options) {
      for slot in 0..<state.projection.slotLimit {
        if state.projection.child(at: slot)?.hidden == .containerSupport { isShown = true }
      }
    }
    let name = ContainerData.realName
    if isShown { inspect(name) }
    guard let slot = state.projection.slot(realName: name.bytes.span) else { return }
    // An entry in the container may have the same name as the container.
    let isNamed = state.projection.rung(of: slot) == .localized
    if !isShown || !isNamed { remove(name) }
  }

  /// Watches for changes of `user-dirs.dirs`, if the directory that holds it exists.
  private func watchUserDirectories() {
    guard let watch, let home = inspector.homeOfUserDirectories(at: site),
      // User directories are not kept deeper, and otherwise every directory of a home would be watching.
      home.path.count <= 2,
      let configuration = try? home.handle.directory.openBeneath(".config", O_RDONLY | O_DIRECTORY)
    else { return }
    // Start a new watch each time: the directory may have been replaced.
    state.sideWatches.userDirectories = try? watch.watch(Directory(descriptor: configuration.rawValue)) {
      [weak self] change in
      switch change {
      case .entry(let name, _), .content(let name, _), .modification(let name, _):
        if strcmp(name, "user-dirs.dirs") == 0 { self?.noteAllChanged() }
      case .attributes, .directoryAttributes: break
      case .everything: self?.noteAllChanged()
      }
    }
  }

  /// Watches for changes of the metadata that netatalk keeps beside the entries.
  private func watchNetatalk() {
    guard state.facts.hasNetatalkDirectory, let watch,
      let files = try? handle.directory.openBeneath(".AppleDouble", O_RDONLY | O_DIRECTORY)
    else { return }
    state.sideWatches.netatalk = try? watch.watch(Directory(descriptor: files.rawValue)) {
      [weak self] change in
      switch change {
      case .entry(let name, _), .content(let name, _):
        self?.noteMetadataChange(of: NetatalkAttributeFiles.owner(of: Name(copying: name)))
      case .everything: self?.noteAllChanged()
      default: break
      }
    }
  }

  /// Reads the directory. Known entries keep their slots, so that listings in progress stay correct.
  func readAll() throws(Errno) {
    listings.countFetch()
    let readable = try handle.directory.openForReading()
    watchUserDirectories()
    if inspector.doPermissionsAffectListing { state.audience = Audience(of: handle.directory) }
    if recheck != nil { state.times.lastComparison = monotonicNanoseconds() }
    if comparesTimes {
      let status = try handle.directory.latestStatus()
      state.times.own = FileTimes(status)
      state.times.mayHaveMissed = FileTimes.isRecent(status.st_mtim)
    }
    var ahead: DirectoryReadAhead?
    if let early = state.ahead.take() {
      ahead = early.entries(ifTimesMatch: try handle.directory.status())
    }
    // What was read before the watch began does not count where the directory has just changed.
    if ahead == nil, !state.isRead, watch != nil, recheck == nil,
      handle.sizeAtOpening >= EntriesAhead.minimumSize, let again = try? handle.directory.openForReading()
    {
      ahead = DirectoryReadAhead(of: again)
    }
    var reader = DirectoryReader(of: readable.rawValue, size: handle.sizeAtOpening, ahead)
    // A small directory shows what it does not have, without a system call for each such file.
    let hasAll = handle.listsAllNames ? try reader.readFirst() : false
    state.facts = inspector.facts(of: handle.directory, at: site) { !hasAll || reader.holds($0) }
    watchNetatalk()
    let matching = inspector.options.matching
    // The content of a package is shown as it is on the disk.
    let composes = inspector.options.normalization == .nfc && !site.role.contains(.insidePackage)
    state.projection.change(matching: matching, composes: composes)
    var gone = Set<Name>()
    if state.isRead {
      for slot in 0..<state.projection.slotLimit where state.projection.summary(at: slot) != nil {
        gone.insert(state.projection.realName(at: slot))
      }
    }
    // A sidecar is inspected after all other entries, because its meaning depends on the entry beside it.
    var sidecars: [(name: Name, type: FileType, inode: UInt64)] = []
    state.namesWithSidecar = []
    state.unread = []
    // No entry of the backing directory stands for it.
    gone.remove(ContainerData.realName)
    // Entries that were known before have to be compared with the new ones.
    let isFirst = !state.isRead && state.projection.slotLimit == 0 && !handle.holdsMountPoint
    let plain = isFirst ? inspector.nameOnlyRules(at: site, facts: state.facts) : nil
    // A directory entry on disk takes some 32 bytes. The reserve is limited, whatever size the file system reports: more entries
    // are added as they come.
    let expected = hasAll ? reader.mostEntriesRead : max(0, min(handle.sizeAtOpening / 32, 1 << 18))
    var filling = ProjectionFilling(
      count: plain == nil ? 0 : expected, matching: matching, composes: composes)
    var others: [(name: Name, type: FileType, inode: UInt64)] = []
    try reader.readAll { (entry) throws(Errno) in
      var type = entry.type
      if Staging.isLocal(Span(_unsafeElements: entry.name)) { mayHoldStaging.store(true, ordering: .relaxed) }
      if let plain, type != .unknown {
        let name = Span(_unsafeElements: entry.name)
        let kind = EntryInspector.kind(of: type)
        if let facts = plain.facts(of: name, kind) {
          filling.add(
            name, kind: kind, inode: entry.inode, entryType: type.direntType, hidden: facts.hidden,
            stemLength: facts.stemLength)
          return
        }
      }
      let name = Name(entry.name)
      if type == .unknown {
        do throws(Errno) {
          type = FileType(mode: try handle.status(entry.cName).st_mode)
        } catch {
          if error != .noSuchFileOrDirectory, state.unread.count < Self.mostUnread {
            state.unread.insert(name)
            gone.remove(name)
          }
          return
        }
      }
      if !gone.isEmpty { gone.remove(name) }
      if name.sidecarOwner != nil {
        sidecars.append((name, type, entry.inode))
      } else if plain != nil {
        others.append((name, type, entry.inode))
      } else {
        upsert(name, type, inode: entry.inode)
      }
    }
    if plain != nil { state.projection = filling.finish() }
    for other in others { upsert(other.name, other.type, inode: other.inode) }
    for name in gone { remove(name) }
    for sidecar in sidecars {
      upsert(sidecar.name, sidecar.type, inode: sidecar.inode)
      inspectSidecarOwner(sidecar.name)
    }
    inspectMounted()
    state.reading = .current
  }
}
