import BackingTree
import CLinux
import DisplayNames
import Glibc
import Logging
import PackageStream
import Synchronization
import SystemPackage

/// The place for entries that are not yet in the view, or no longer in it: a hidden directory at the top of SOURCE, which exists
/// while something is in it. The next mount of the same SOURCE cleans up what a daemon that died has left in it.
///
/// An entry on another file system than SOURCE cannot be renamed to or from there. For it a staging directory is made beside the
/// entry, and cleaned up when the directory around it is next opened.
///
/// Staging directories belong to the daemon (mode 0700), so no client reaches their content by a path. They hold three things: a
/// package that is being unpacked and a stream that became a package, both named by a number, and a package that is being
/// removed, named by `removed-` and a number, with a record beside it.
final class Staging: Sendable {
  static let name: StaticString = ".displayfs-staging"

  private let root: DirectoryHandle
  /// The number of users. The last one removes the directory.
  private let users = Guarded(0)
  /// Whether a thread is cleaning up staging directories beside entries. Also true until the mount has begun to clean up, and
  /// always in a read-only mount.
  fileprivate let isCleaningUp = Atomic(true)

  init(in root: DirectoryHandle) { self.root = root }

  /// A unique name for an entry in a staging directory. The directory exists as long as this object.
  final class Place: Sendable {
    let directory: DirectoryHandle
    let name: Name
    /// Whether the staging directory is beside the entry.
    fileprivate let isLocal: Bool
    private let leave: @Sendable () -> Void

    fileprivate init(
      _ directory: DirectoryHandle, isLocal: Bool, leave: @escaping @Sendable () -> Void
    ) {
      self.directory = directory
      name = Name("\(UInt64.random(in: .min ... .max))")
      self.isLocal = isLocal
      self.leave = leave
    }

    /// For a package that is being removed. Writes the record first.
    fileprivate init(removing place: Place, _ record: Record) throws(Errno) {
      directory = place.directory
      name = Name("\(Staging.removedPrefix)\(place.name)")
      isLocal = place.isLocal
      leave = { withExtendedLifetime(place) {} }
      try record.write(for: name, in: directory.directory, isLocal: isLocal)
    }

    deinit { leave() }

    /// Removes the directory of this name, which is empty, and its record.
    func removeDirectory() throws(Errno) {
      try CName(name).withPointer { (name) throws(Errno) in try directory.directory.removeDirectory(name) }
      Record.remove(for: name, in: directory.directory)
    }

    /// Puts the rest of a package back. - Returns: its name there; nil when it stays in staging.
    func restore(to original: Name, in target: Directory, _ logger: Logger) -> Name? {
      Staging.restore(name, in: directory.directory, to: original, in: target, logger)
    }
  }

  /// - Throws: EACCES where the directory belongs to another user; EWOULDBLOCK while another daemon cleans it up; the errno of
  ///   making it.
  func enter() throws(Errno) -> Place {
    let opened: Result<DirectoryHandle, Errno> = users.withLock { users in
      do throws(Errno) {
        do throws(Errno) { try root.directory.makeDirectory(Self.pointer, mode: 0o700) } catch {
          if error != .fileExists { throw error }
        }
        let opened = try Self.openLocked(Self.pointer, in: root.directory)
        users += 1
        return .success(opened)
      } catch { return .failure(error) }
    }
    return Place(try opened.get(), isLocal: false) { [self] in leave() }
  }

  private func leave() {
    users.withLock { users in
      users -= 1
      if users == 0 { try? root.directory.removeDirectory(Self.pointer) }
    }
  }

  /// Makes a staging directory beside the entry, for this use alone.
  static func enterLocal(in directory: DirectoryHandle) throws(Errno) -> Place {
    let own = CName(Name("\(name)-\(UInt64.random(in: .min ... .max))"))
    return try own.withPointer { (pointer) throws(Errno) in
      try directory.directory.makeDirectory(pointer, mode: 0o700)
      do throws(Errno) {
        let opened = try openLocked(pointer, in: directory.directory)
        return Place(opened, isLocal: true) {
          own.withPointer { try? directory.directory.removeDirectory($0) }
        }
      } catch {
        try? directory.directory.removeDirectory(pointer)
        throw error
      }
    }
  }

  /// Whether a directory's name is that of a staging directory beside entries.
  static func isLocal(_ name: Span<UInt8>) -> Bool {
    guard name.count > self.name.utf8CodeUnitCount, name[0] == UInt8(ascii: ".") else { return false }
    return name.withUnsafeBytes { $0.starts(with: localPrefix) }
  }

  private static let localPrefix = Array("\(name)-".utf8)

  /// Calls `body` for everything in staging once no other daemon uses it. Another daemon is another mount of the same SOURCE, or
  /// one that was killed and whose threads have not all ended.
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
    guard let readable = try? directory.openForReading() else { return true }
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
        } else if name.bytes.allSatisfy({ (0x30...0x39).contains($0) }) {
          .importing
        } else { nil }
      body(Leftover(name: name, directory: directory, parent: parent, kind: kind))
    }
    try? parent.removeDirectory(own)
    return true
  }

  /// An entry that a daemon which died has left in a staging directory.
  struct Leftover {
    enum Kind {
      /// An unfinished import, or the stream of a finished one.
      case importing
      /// A package that was being removed.
      case removed(Record)
    }
    let name: Name
    let directory: Directory
    /// The directory around the staging directory.
    fileprivate let parent: Directory
    /// Nil for an entry that no daemon puts there.
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
  private static func restore(
    _ staged: Name, in directory: Directory, to original: Name, in target: Directory, _ logger: Logger
  ) -> Name? {
    var failure = Errno.fileExists
    for number in 1..<100 {
      let name = number == 1 ? original : original.numbered(number)
      do throws(Errno) {
        try CName(staged).withPointer { (staged) throws(Errno) in
          try CName(name).withPointer { (name) throws(Errno) in
            try directory.rename(staged, to: target, name, .noReplace)
          }
        }
        Record.remove(for: staged, in: directory)
        logger.notice("\(name) could not be deleted completely: the remainder was restored")
        return name
      } catch {
        failure = error
        if error != .fileExists { break }
      }
    }
    logger.error(
      "\(original) could not be deleted completely, and the remainder stays in \(Staging.name) (\(failure)); the next mount tries again"
    )
    return nil
  }

  /// Opens a staging directory and locks it for as long as it is open: another mount of the same SOURCE leaves its content alone.
  private static func openLocked(
    _ own: UnsafePointer<CChar>, in parent: Directory
  ) throws(Errno) -> DirectoryHandle {
    let opened = try open(own, in: parent)
    if dfs_flock(opened.directory.descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK {
      throw .wouldBlock
    }
    return opened
  }

  /// - Throws: EACCES for a directory of that name that does not belong to the daemon.
  private static func open(
    _ own: UnsafePointer<CChar>, in parent: Directory
  ) throws(Errno) -> DirectoryHandle {
    let opened = try parent.open(own, O_RDONLY | O_DIRECTORY)
    let status = try fileStatus(opened.rawValue)
    // A set-group-ID bit is inherited from the directory around it, so it is not compared. Where all directories have the mode
    // that the mount has been given, no other user may change it at least.
    let isPrivate =
      status.st_mode & 0o777 == 0o700
      || status.st_mode & 0o022 == 0 && !FileSystemKind(of: opened.rawValue).keepsModes
    guard status.st_uid == geteuid(), isPrivate else { throw .permissionDenied }
    return DirectoryHandle(adopting: opened, identity: FileIdentity(status), covered: nil)
  }

  private static let removedPrefix: Name = "removed-"

  private static var pointer: UnsafePointer<CChar> {
    UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
  }
}

extension Staging {
  /// The client that is removing a package, and the package's place in the tree. A removal that a crash has interrupted is
  /// finished with the credentials of that client, and what the client may not delete is put back.
  struct Record {
    let credentials: Credentials
    /// The real names from SOURCE to the package. For a staging directory beside the package, the package's name alone.
    let path: [Name]

    var directory: [UInt8] { Array(path.dropLast().map(\.bytes).joined(separator: [UInt8(ascii: "/")])) }

    private static let suffix = Array("-record".utf8)

    private static func name(for staged: Name) -> CName { CName(Name(staged.bytes + suffix)) }

    /// The name of the entry that a record belongs to; nil if `name` is not the name of a record.
    static func owner(of name: Name) -> Name? {
      guard name.bytes.count > suffix.count, name.bytes.suffix(suffix.count).elementsEqual(suffix) else {
        return nil
      }
      return Name(Array(name.bytes.dropLast(suffix.count)))
    }

    static func remove(for staged: Name, in directory: Directory) {
      name(for: staged).withPointer { try? directory.unlink($0) }
    }

    /// Writes `USER GROUP UMASK GROUPS...`, a newline, the path and a NUL. A record that a crash has cut off lacks the NUL.
    func write(for staged: Name, in directory: Directory, isLocal: Bool) throws(Errno) {
      let numbers = [credentials.user, credentials.group, UInt32(credentials.umask)] + credentials.groups
      let path = isLocal ? Array(path.suffix(1)) : path
      let bytes =
        Array(numbers.map(String.init).joined(separator: " ").utf8) + [UInt8(ascii: "\n")]
        + path.map(\.bytes).joined(separator: [UInt8(ascii: "/")]) + [0]
      do throws(Errno) {
        let file = try Self.name(for: staged).withPointer { (name) throws(Errno) in
          try directory.open(name, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        }
        try bytes.withUnsafeBytesTyped { (bytes) throws(Errno) in try writeFully(file.rawValue, bytes, at: 0)
        }
      } catch {
        Self.remove(for: staged, in: directory)
        throw error
      }
    }

    /// Nil when there is no complete record.
    static func read(for staged: Name, in directory: Directory) -> Record? {
      guard let bytes = name(for: staged).withPointer({ directory.smallFile($0, limit: 1 << 20) }),
        bytes.last == 0,
        let end = bytes.firstIndex(of: UInt8(ascii: "\n"))
      else { return nil }
      let numbers = bytes[..<end].split(separator: UInt8(ascii: " ")).map {
        UInt32(String(decoding: $0, as: UTF8.self))
      }
      let path = bytes[(end + 1)...].dropLast().split(separator: UInt8(ascii: "/")).map { Name(Array($0)) }
      guard numbers.count >= 3, !numbers.contains(nil), !path.isEmpty else { return nil }
      let known = numbers.compactMap(\.self)
      return Record(
        credentials: Credentials(
          user: known[0], group: known[1], groups: Array(known[3...]), umask: mode_t(known[2])),
        path: path)
    }
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
  /// Takes an entry out of the view in one step.
  ///
  /// - Parameter record: for a package that is being removed.
  /// - Throws: EXDEV when the entry cannot be renamed into another directory of its own file system either, such as a directory
  ///   in an overlay's lower layer.
  func stage(
    _ name: UnsafePointer<CChar>, of directory: DirectoryHandle, _ record: Staging.Record? = nil
  ) throws(Errno) -> Staging.Place {
    func move(to entered: Staging.Place) throws(Errno) -> Staging.Place {
      let place = if let record { try Staging.Place(removing: entered, record) } else { entered }
      do throws(Errno) {
        try CName(place.name).withPointer { (staged) throws(Errno) in
          try directory.directory.rename(name, to: place.directory.directory, staged, .noReplace)
        }
      } catch {
        if record != nil { Staging.Record.remove(for: place.name, in: place.directory.directory) }
        throw error
      }
      return place
    }
    if let place = try? packages.staging.enter() {
      do throws(Errno) { return try move(to: place) } catch {
        guard error == .improperLink else { throw error }
      }
    }
    return try move(to: Staging.enterLocal(in: directory))
  }

  /// A place in staging from which an entry can be renamed into a directory.
  func place(for directory: DirectoryHandle) throws(Errno) -> Staging.Place {
    if let place = try? packages.staging.enter(), place.directory.identity.device == directory.identity.device
    {
      return place
    }
    return try Staging.enterLocal(in: directory)
  }

  /// Deletes an entry that an import has left in staging, with everything below it. It is no client's only copy. Must be called
  /// with no lock held.
  func discard(_ place: Staging.Place) {
    do throws(Errno) {
      try removeTree(place.name, in: place.directory.directory)
    } catch {
      guard error != .noSuchFileOrDirectory else { return }
      logger.error(
        "\(place.name) could not be deleted from \(Staging.name): \(error); the next mount tries again")
    }
  }

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
      case .importing:
        if isOnlyCopy(name, in: directory) { return }
        try removeTree(name, in: directory)
      case .removed(let record):
        do throws(Errno) { try finishRemoval(name, in: directory, record) } catch {
          return leftover.restore(record, logger)
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
        try DirectoryTree.empty(Directory(descriptor: package.rawValue))
      }
      try directory.removeDirectory(pointer)
      Staging.Record.remove(for: name, in: directory)
    }
  }

  /// Deletes an entry with everything below it, with the daemon's credentials.
  private func removeTree(_ name: Name, in directory: Directory) throws(Errno) {
    try CName(name).withPointer { (name) throws(Errno) in
      guard FileType(mode: try directory.status(name).st_mode) == .directory else {
        return try directory.unlink(name)
      }
      let top = try directory.open(name, O_RDONLY | O_DIRECTORY)
      try DirectoryTree.empty(Directory(descriptor: top.rawValue)) { dropTunnelEntries(of: $0) }
      try directory.removeDirectory(name)
    }
  }

  /// Whether a leftover is a stream that must be kept. A stream whose package is in the view may be deleted. A stream that was
  /// written to since is the only copy of what was written.
  private func isOnlyCopy(_ name: Name, in directory: Directory) -> Bool {
    let stream = try? CName(name).withPointer { (name) throws(Errno) in
      try directory.openRegular(name, O_RDONLY)
    }
    guard let stream else { return false }
    if (try? PackageImport(checking: stream.descriptor.rawValue).checkData()) != nil { return false }
    logger.error(
      "\(name) in \(Staging.name) is the stream of a package and was written to afterwards: inspect it, then delete it"
    )
    return true
  }
}
