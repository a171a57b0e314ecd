import BackingTree
import CLinux
import DisplayNames
import Glibc
import Logging
import PackageStream
import SystemPackage

/// What a daemon that died has left in staging directories.
extension Staging {
  /// Calls `body` for everything in staging once no other daemon uses it. Another daemon is another mount of the same SOURCE, or
  /// one that was killed and still has threads.
  ///
  /// - Parameter waits: whether to wait for other daemons.
  /// - Returns: false when another daemon uses it and `waits` is false.
  func forEachLeftover(waits: Bool, _ body: (Leftover) -> Void) -> Bool {
    Self.forEachLeftover(Self.pointer, of: root.directory, waits: waits, body)
  }

  /// The same for staging directories beside the entries of a directory.
  static func forEachLocalLeftover(in directory: Directory, _ body: (Leftover) -> Void) {
    guard let readable = try? directory.openForReading() else { return }
    var names: [CName] = []
    try? forEachEntry(of: readable.rawValue) { entry in
      if isLocal(Span(_unsafeElements: entry.name)) { names.append(CName(entry.name)) }
    }
    for name in names { _ = name.withPointer { forEachLeftover($0, of: directory, waits: false, body) } }
  }

  private static func forEachLeftover(
    _ own: UnsafePointer<CChar>, of parent: Directory, waits: Bool, _ body: (Leftover) -> Void
  ) -> Bool {
    guard let opened = try? open(own, in: parent) else { return true }
    let directory = opened.directory
    do throws(Errno) {
      try systemCall { dfs_flock(directory.descriptor, waits ? LOCK_EX : LOCK_EX | LOCK_NB) }
    } catch { return error != .wouldBlock }
    guard let readable = try? directory.openForReading(), let status = try? directory.status() else {
      return true
    }
    var names: Set<Name> = []
    try? forEachEntry(of: readable.rawValue) { names.insert(Name($0.name)) }
    for name in names {
      if let owner = Record.owner(of: name) {
        if !names.contains(owner) { Record.remove(for: owner, in: directory) }
        continue
      }
      let kind: Leftover.Kind? =
        if name.bytes.starts(with: removedPrefix.bytes) {
          Record.read(for: name, in: directory).map { .removed($0) }
        } else if name.bytes.starts(with: unpackingPrefix.bytes) {
          .unpacking
        } else if name.bytes.starts(with: streamPrefix.bytes) {
          .stream(lastMove: status.st_mtim)
        } else { nil }
      body(Leftover(name: name, directory: directory, parent: parent, kind: kind))
    }
    try? parent.removeDirectory(own)
    return true
  }

  /// An entry that a daemon which died has left in a staging directory.
  struct Leftover {
    enum Kind {
      case unpacking
      /// A stream that became a package, unless something else had got its name. `lastMove` is when an entry last came into or
      /// left the staging directory.
      case stream(lastMove: timespec)
      /// A package that was being removed.
      case removed(Record)
    }
    let name: Name
    let directory: Directory
    /// The directory around the staging directory.
    fileprivate let parent: Directory
    /// Nil for an entry that no daemon puts there, and for one that a client may have changed.
    let kind: Kind?

    /// Puts the rest of a package back where it was removed from.
    func restore(_ record: Record, _ logger: Logger) {
      guard let original = record.path.last,
        let target = try? parent.openDeep(record.directory, dfs_O_PATH | dfs_O_DIRECTORY)
      else {
        return logger.error(
          "\(name) in \(Staging.name) cannot be restored to its place: inspect it, then move or delete it")
      }
      _ = Staging.restore(
        name, in: directory, to: original, in: Directory(descriptor: target.rawValue), logger)
    }
  }

  /// Uses the original name, or that name with a number where it is taken.
  ///
  /// - Parameter first: the first number to try; 1 stands for the name without a number.
  static func restore(
    _ staged: Name, in directory: Directory, to original: Name, from first: Int = 1, in target: Directory,
    _ logger: Logger,
    because reason: String = "could not be deleted completely"
  ) -> Name? {
    var failure = Errno.fileExists
    for number in first..<100 {
      let name = number == 1 ? original : original.numbered(number)
      do throws(Errno) {
        try CName(staged).withPointer { (staged) throws(Errno) in
          try CName(name).withPointer { (name) throws(Errno) in
            try directory.move(staged, to: target, name, .noReplace)
          }
        }
        Record.remove(for: staged, in: directory)
        logger.notice("\(name) \(reason): what is left was restored")
        return name
      } catch {
        failure = error
        if error != .fileExists { break }
      }
    }
    logger.error(
      "\(original) \(reason), and what is left stays as \(staged) in \(Staging.name) (\(failure)): to keep it, move it before the next mount deletes it"
    )
    return nil
  }
}

extension Name {
  /// The name that a file manager gives to a second file of this name: `Album 2.photoslibrary`.
  fileprivate func numbered(_ number: Int) -> Name {
    let stem = bytes.lastIndex(of: UInt8(ascii: ".")).map { $0 > 0 ? $0 : bytes.count } ?? bytes.count
    return Name(Array(bytes[..<stem]) + Array(" \(number)".utf8) + Array(bytes[stem...]))
  }
}

extension View {
  /// Cleans up what an earlier mount could not finish. Called when the mount starts, and once more if another daemon still used
  /// it.
  ///
  /// - Parameter waits: whether to wait while another daemon uses the staging directory.
  /// - Returns: false when another daemon uses it and `waits` is false.
  @discardableResult package func cleanUpStaging(waits: Bool = false) -> Bool {
    guard !isPlainMirror else { return true }
    packages.staging.isCleaningUp.store(false, ordering: .releasing)
    return packages.staging.forEachLeftover(waits: waits, cleanUp)
  }

  /// The same for what an earlier mount has left beside the entries of a directory. This runs on its own thread because it may
  /// take long. There is one such thread at a time: otherwise a client could start one with each directory that it opens. What is
  /// not cleaned up now is cleaned up when the directory is next read.
  func cleanUpLocalStaging(of view: DirectoryView) {
    guard !packages.staging.isCleaningUp.exchange(true, ordering: .acquiringAndReleasing) else { return }
    view.mayHoldStaging.store(false, ordering: .relaxed)
    let cleaning = Thread { [self] in
      Staging.forEachLocalLeftover(in: view.handle.directory, cleanUp)
      packages.staging.isCleaningUp.store(false, ordering: .releasing)
    }
    if cleaning == nil { packages.staging.isCleaningUp.store(false, ordering: .releasing) }
    cleaning?.detach()
  }

  private func cleanUp(_ leftover: Staging.Leftover) {
    let (name, directory) = (leftover.name, leftover.directory)
    do throws(Errno) {
      switch leftover.kind {
      case nil:
        return logger.error(
          "\(name) in \(Staging.name) is unknown and is kept: inspect it, then move or delete it")
      case .unpacking: try removeTree(name, in: directory)
      case .stream(let lastMove):
        if mustBeKept(name, in: directory, lastMove: lastMove) { return }
        try removeTree(name, in: directory)
        Staging.Record.remove(for: name, in: directory)
      case .removed(let record):
        do throws(Errno) { try finishRemoval(name, in: directory, record) } catch {
          if error.isRefusal { return leftover.restore(record, logger) }
          return logger.error(
            "\(name) in \(Staging.name) could not be deleted completely: \(error); the next mount tries again"
          )
        }
      }
      logger.notice("cleaned up after an earlier mount")
    } catch {
      logger.error("\(name) in \(Staging.name) cannot be deleted: \(error); delete it by hand")
    }
  }

  private func finishRemoval(_ name: Name, in directory: Directory, _ record: Staging.Record) throws(Errno) {
    try CName(name).withPointer { (pointer) throws(Errno) in
      // The daemon opens the package itself, as no client can pass through the staging directory. The content is deleted with the
      // client's credentials.
      let package = try directory.open(pointer, dfs_O_PATH | O_DIRECTORY)
      try record.credentials.impersonate { () throws(Errno) in
        let package = Directory(descriptor: package.rawValue)
        // What the removal was refused for may have come after its own check.
        try DirectoryTree.checkRemovable(package, record.credentials)
        try DirectoryTree.empty(package)
      }
      try directory.removeDirectory(pointer)
      Staging.Record.remove(for: name, in: directory)
    }
  }

  /// Deletes an entry with everything below it, with the daemon's credentials.
  func removeTree(_ name: Name, in directory: Directory) throws(Errno) {
    try CName(name).withPointer { (name) throws(Errno) in
      guard FileType(mode: try directory.status(name).st_mode) == .directory else {
        return try directory.unlink(name)
      }
      // Root needs no permission, and must change none of a file that a client exchanges for a directory meanwhile.
      let needsPermissions = geteuid() != 0
      if needsPermissions { try? directory.setPermissions(name, S_IRWXU) }
      let top = try directory.open(name, O_RDONLY | O_DIRECTORY)
      try DirectoryTree.empty(Directory(descriptor: top.rawValue), addsPermissions: needsPermissions) {
        dropTunnelEntries(of: $0)
      }
      try directory.removeDirectory(name)
    }
  }

  /// Whether an entry with the name of a stream that became a package must be kept. The stream itself may be deleted: the package
  /// is in the view. One that was written to since is the only copy of what was written.
  private func mustBeKept(_ name: Name, in directory: Directory, lastMove: timespec) -> Bool {
    let record = Staging.StreamRecord.read(for: name, in: directory)
    let stream = try? CName(name).withPointer { (name) throws(Errno) in
      try directory.openRegular(name, O_RDONLY)
    }
    if let stream {
      if stream.descriptor.hasWriter() {
        logger.notice(
          "\(name) in \(Staging.name) is the stream of a package that a program may still write to: it is kept until the next mount"
        )
        return true
      }
      let changed = stream.status.st_ctim
      let isUnchanged =
        if let recorded = record?.changed {
          (recorded.tv_sec, recorded.tv_nsec) == (changed.tv_sec, changed.tv_nsec)
        } else {
          // The daemon died between the move and the record of the change time: the move itself set it, to the time that the
          // staging directory has from the same move.
          changed.isWithinTick(of: lastMove)
        }
      if isUnchanged, name.bytes.starts(with: Staging.prefix(of: StreamState(stream.status)).utf8) {
        return false
      }
    } else if let record, record.changed == nil,
      let status = try? CName(name).withPointer({ (name) throws(Errno) in try directory.status(name) }),
      FileType(mode: status.st_mode) == .directory, UInt64(status.st_ino) == record.package
    {
      // The daemon died before the exchange: the package has never been in the view, and the stream still is.
      return false
    }
    logger.error(
      "\(name) in \(Staging.name) is not, or no longer, the stream that became a package: inspect it, then move or delete it"
    )
    return true
  }
}

extension timespec {
  /// Whether a call that sets two times can have set both. The kernel's clock for files ticks each 10 ms or faster, and from Linux
  /// 6.13 on one of the two may be exact and the other of the last tick, which a busy virtual machine takes late.
  fileprivate func isWithinTick(of other: timespec) -> Bool {
    let nanoseconds = (tv_sec - other.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    return !nanoseconds.overflow && abs(nanoseconds.partialValue + tv_nsec - other.tv_nsec) <= 50_000_000
  }
}
