import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// What the kernel may answer by itself, and what it must forget again.
extension View {
  /// How long what the kernel keeps is believed, in seconds, although nothing told that it changed.
  ///
  /// Where changes are watched this bounds what the watch does not see: the time of the last reading, files that are
  /// changed by another of their names or through a mapping, and what is mounted in the backing tree.
  public var keptFor: Double { coherence.recheck.map { Double($0) / 1e9 } ?? 60 }

  /// From now on the kernel keeps what it is told, and is told when that holds no longer.
  public func startCaching(_ notices: some CacheNotices) { cached.notices = notices }

  /// Whether a file's attributes change in no other way than the watch on its directory tells.
  func mayKeepAttributes(
    of node: NodeID, _ status: stat, facet: Facet, in handle: DirectoryHandle
  ) -> Bool {
    guard facet == .plain, !openNodes.isUnheard(node), UInt64(status.st_dev) == handle.identity.device else {
      return false
    }
    // What the kernel writes by itself takes these bits away without that it notices.
    if status.st_mode & (S_ISUID | S_ISGID) != 0 { return false }
    // A directory's own change with what is in it.
    let type = FileType(mode: status.st_mode)
    return type != .directory && status.st_nlink == 1
  }

  /// Whether what is done to a file by one of its names, the display name or the real one, can be told of the other before
  /// whoever did it goes on.
  var mayKeepNames: Bool { isPlainMirror || cached.tellsOfAllNames }

  /// Whether the kernel may keep that a name stands for nothing: what could change that is told of.
  func mayKeepAbsence(of name: UnsafePointer<CChar>, in parent: NodeID, _ lease: CacheLease) -> Bool {
    let copy = Name(copying: name)
    if isPlainMirror {
      _ = lease.noteAbsent(copy)
      return true
    }
    // What is denied is not there for whoever asks, whatever is. A companion comes and goes with its file.
    guard options.hidden != .deny, strncmp(name, "._", 2) != 0 else { return false }
    if directoryViews.view(of: parent)?.noteAbsent(copy, lease) ?? false { return true }
    // Nothing but a change of that very name: where those are hidden, it is nobody's display name.
    guard options.hidden == .reach, name[0] == 0x2e, !inspector.hasKnownExtension(copy) else { return false }
    _ = lease.noteAbsent(copy)
    return true
  }

  /// What the kernel was told of a name, which it may keep, was true when it was looked at. It may be outdated by now.
  public func settle(_ entry: Entry, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    if let lease = entry.nameLease { settle(lease, parent, name) }
    if let lease = entry.attributesLease { settle(lease, of: entry.id, in: parent) }
  }

  private func settle(_ lease: CacheLease, _ parent: NodeID, _ name: UnsafePointer<CChar>) {
    if lease.isBroken { cached.notices?.expire(Name(copying: name), in: parent) }
  }

  /// The same of a node's attributes.
  ///
  /// - Parameter parent: where it was looked up, if it was.
  public func settle(_ lease: CacheLease, of node: NodeID, in parent: NodeID? = nil) {
    if lease.isBroken(for: node) { cached.notices?.expireAttributes(of: node, in: parent) }
  }

  // MARK: After changes through the mount

  /// What the names of an entry stand for is about to change, or how many they are.
  func forgetNames(of location: NodeTable.Location) {
    cached.forget([(location.parent, location.name.name)])
  }

  /// A file has got a link: the kernel asks for either name from now on, which tells whose companion is meant, and what the
  /// next link is called.
  ///
  /// Where that is all the same, soon is early enough. When every name is expired at once the kernel gives up each directory
  /// until somebody looks it up again, and whoever works in one is told meanwhile that it is gone (getcwd(3)).
  func forgetOldName(at location: NodeTable.Location) {
    if !location.wasGivenByRealName || inspector.metadata.isThere { return forgetNames(of: location) }
    cached.noteOwnChange(in: location.parent)
    cached.notices?.expire(location.name.name, in: location.parent)
  }

  /// Of the two names of a file the kernel keeps the one that it has asked for last. Until it has forgotten the other, what is
  /// done by one of them has every name forgotten.
  func takeBack(_ other: GivenNames, from entry: Entry, _ realName: Name, in parent: NodeID) {
    guard let notices = cached.notices,
      let name = other == .real ? realName : shownName(realName, in: parent),
      other == .real || name != realName,
      nodes.startTakingBack(other, from: entry.id)
    else { return }
    notices.invalidate(name, in: parent) { [nodes] in
      nodes.tookBack(other, from: entry.id, generation: entry.generation)
    }
  }

  /// An entry has left a name, by which the kernel may know it in several ways: it forgets the one that was used itself.
  func noteGone(_ given: GivenNames, _ realName: Name, in parent: NodeID) {
    cached.noteOwnChange(in: parent)
    guard given.areSeveral else { return }
    cached.forget([(parent, realName)])
  }

  /// Nobody keeps display names right in views that are let go.
  ///
  /// Descriptors may run out for somebody who works with one of them: those that are in use are left to the thread that
  /// follows, which holds no lock.
  func forgetDisplayNames(of views: [DirectoryView], isFollowing: Bool = false) {
    guard !views.isEmpty, let notices = cached.notices, !cached.expireAllNames() else { return }
    for view in views {
      if let names = view.displayNames(waits: isFollowing) {
        for name in names { notices.expire(name, in: view.node) }
      } else {
        changes.isLetGo(view)
      }
    }
  }

  // MARK: After changes of the backing tree

  /// Has the kernel forget what the news of the backing tree say may hold no longer. To be called by the one thread that
  /// follows.
  func expireOutdated() {
    guard let notices = cached.notices else { return }
    for directory in cached.takeNews() {
      let news = directory.takeNews()
      if news.isEverything {
        let isThere = isThere(directory.node)
        // Of one that the kernel has forgotten it keeps nothing, and the node's number may be another's by now.
        if cached.remove(directory.node, ifStill: directory) {
          expireEverything(in: [directory.node], notices, areThere: isThere)
        }
        continue
      }
      if news.isItselfChanged { expireAttributes(of: directory.node, notices) }
      let handle = try? self.directory(directory.node)
      for name in news.names { expire(name, in: directory, handle, notices) }
      for name in news.contents.subtracting(news.names) {
        expireAttributes(of: name, in: directory.node, handle, notices)
      }
    }
    let surplus = cached.removeSurplus()
    if !surplus.isEmpty { expireEverything(in: surplus, notices) }
  }

  /// Whether a directory is where it was, and not removed.
  private func isThere(_ id: NodeID) -> Bool {
    guard nodes.location(of: id) != nil, let handle = try? directory(id) else { return false }
    return (try? fileStatus(handle.directory.descriptor))?.st_nlink != 0
  }

  /// Something was done to a name in a directory.
  private func expire(
    _ name: Name, in directory: CachedDirectory, _ handle: DirectoryHandle?, _ notices: any CacheNotices
  ) {
    let id = directory.node
    guard let handle else { return notices.expire(name, in: id) }
    let isKnown = CName(name).withPointer { cName -> Bool in
      guard let status = try? handle.status(cName), let node = nodes.node(of: FileIdentity(status)),
        let location = nodes.location(of: node)
      else { return false }
      // Its content may have changed in the same moment.
      notices.expireAttributes(of: node, in: id)
      // What was made through the mount by this name is where the kernel knows it to be.
      return location.parent == id && location.isOf(status) && location.name.equals(cName)
        && location.wasGivenByRealName
    }
    // It may have gone and come back, and been looked for meanwhile.
    if !directory.takeAbsentOrAny(name), isKnown { return }
    notices.invalidate(name, in: id)
    for facet in [Facet.plain, .packageFile] {
      guard let node = CName(name).withPointer({ nodes.node(at: id, $0, facet: facet) }) else { continue }
      notices.expireAttributes(of: node, in: id)
    }
  }

  private func expireAttributes(
    of name: Name, in id: NodeID, _ handle: DirectoryHandle?, _ notices: any CacheNotices
  ) {
    guard let handle else { return notices.expire(name, in: id) }
    let status: stat
    do throws(Errno) {
      status = try CName(name).withPointer { (name) throws(Errno) in try handle.status(name) }
    } catch {
      // That it is gone is news of its own.
      if error != .noSuchFileOrDirectory { notices.expire(name, in: id) }
      return
    }
    for facet in [Facet.plain, .packageFile] {
      guard let node = nodes.node(of: FileIdentity(status), facet: facet) else { continue }
      // First: what the kernel is told from then on it must not keep.
      openNodes.ignoreModifications(of: node)
      notices.expireAttributes(of: node, in: id)
    }
    // A directory's attributes may say that it is a package.
    if FileType(mode: status.st_mode) == .directory { notices.expire(name, in: id) }
  }

  private func expireAttributes(of directory: NodeID, _ notices: any CacheNotices) {
    notices.expireAttributes(of: directory, in: nodes.location(of: directory)?.parent)
  }

  /// Among the names are display names, and some that stand for nothing; but whoever removes a directory has emptied it before,
  /// name by name.
  private func expireEverything(
    in directories: Set<NodeID>, _ notices: any CacheNotices, areThere: Bool = true
  ) {
    let areNamesExpired = areThere && cached.expireAllNames()
    for id in directories { expireAttributes(of: id, notices) }
    for (node, location) in nodes.located(in: directories) {
      notices.expireAttributes(of: node, in: location.parent)
      if !areNamesExpired { notices.expire(location.name.name, in: location.parent) }
    }
  }

  /// Has the kernel forget names that stand for something else now, or for nothing.
  func expireNames(_ changes: [ViewChange]) {
    guard let notices = cached.notices else { return }
    func expire(_ item: ListedItem) { notices.expire(item.name, in: item.directory) }
    for change in changes {
      switch change {
      case .appeared(let item): expire(item)
      case .vanished(let item): notices.invalidate(item.name, in: item.directory)
      case .renamed(let old, let new):
        expire(old)
        expire(new)
      case .written, .attributes: break
      }
    }
  }
}
