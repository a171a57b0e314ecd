import BackingTree
import CLinux
import DisplayNames
import Glibc
import Logging
import Synchronization
import SystemPackage

/// The place for entries that are not yet in the view, or no longer in it: a hidden directory at the top of SOURCE, which exists
/// while something is in it. The next mount of the same SOURCE cleans up what a daemon that died has left in it.
///
/// An entry on another file system than SOURCE cannot be renamed to or from there. For it a staging directory is made beside the
/// entry, and cleaned up when the directory around it is next opened.
///
/// Staging directories belong to the daemon (mode 0700), so no client reaches their content by a path. The name of an entry begins
/// with its role.
final class Staging: Sendable {
  static let name: StaticString = ".displayfs-staging"

  let root: DirectoryHandle
  /// The number of users. The last one removes the directory.
  private let users = Guarded(0)
  /// Whether a thread is cleaning up staging directories beside entries. Also true until the mount has begun to clean up, and
  /// always in a read-only mount.
  let isCleaningUp = Atomic(true)

  init(in root: DirectoryHandle) { self.root = root }

  /// The role of an entry. A later mount deletes an entry only if it has the role that its name says: what a client may have
  /// changed, or put in the place of something else, is kept.
  enum Role {
    /// A package that is being unpacked, and has never been in the view.
    case unpacking
    /// A stream that became a package, with its state as of the import. A record lies beside it.
    case stream(StreamState, package: FileIdentity)
    /// A package that was exchanged for the stream that it was made from.
    case reverted
    /// A package that is being removed. A record lies beside it.
    case removed(Record)

    /// What the names of such entries begin with. A number follows.
    var prefix: String {
      switch self {
      case .unpacking: "\(Staging.unpackingPrefix)"
      case .stream(let state, _): Staging.prefix(of: state)
      case .reverted: "reverted-"
      case .removed: "\(Staging.removedPrefix)"
      }
    }
  }

  /// A unique name for an entry in a staging directory. The directory exists as long as this object.
  final class Place: Sendable {
    let directory: DirectoryHandle
    let name: Name
    /// Whether the staging directory is beside the entry.
    fileprivate let isLocal: Bool
    private let leave: @Sendable () -> Void

    fileprivate init(
      _ directory: DirectoryHandle, _ role: Role, isLocal: Bool, leave: @escaping @Sendable () -> Void
    ) {
      self.directory = directory
      name = Name("\(role.prefix)\(UInt64.random(in: .min ... .max))")
      self.isLocal = isLocal
      self.leave = leave
    }

    deinit { leave() }

    /// A place in the same staging directory.
    func neighbor(for role: Role) -> Place {
      Place(directory, role, isLocal: isLocal) { [self] in withExtendedLifetime(self) {} }
    }

    /// Removes the record of what is in this place, if it has one.
    func removeRecord() { Record.remove(for: name, in: directory.directory) }

    /// Removes the directory of this name, which is empty, and its record.
    func removeDirectory() throws(Errno) {
      try CName(name).withPointer { (name) throws(Errno) in try directory.directory.removeDirectory(name) }
      removeRecord()
    }

    /// Puts the rest of a package back. - Returns: its name there; nil when it stays in staging.
    func restore(
      to original: Name, from number: Int = 1, in target: Directory, _ logger: Logger,
      because reason: String = "could not be deleted completely"
    ) -> Name? {
      Staging.restore(
        name, in: directory.directory, to: original, from: number, in: target, logger, because: reason)
    }
  }

  /// - Throws: EACCES where the directory belongs to another user; EWOULDBLOCK while another daemon cleans it up; the errno of
  ///   making it.
  func enter(for role: Role) throws(Errno) -> Place {
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
    return Place(try opened.get(), role, isLocal: false) { [self] in leave() }
  }

  private func leave() {
    users.withLock { users in
      users -= 1
      if users == 0 { try? root.directory.removeDirectory(Self.pointer) }
    }
  }

  /// Makes a staging directory beside the entry, for this use alone.
  static func enterLocal(in directory: DirectoryHandle, for role: Role) throws(Errno) -> Place {
    let own = CName(Name("\(name)-\(UInt64.random(in: .min ... .max))"))
    return try own.withPointer { (pointer) throws(Errno) in
      try directory.directory.makeDirectory(pointer, mode: 0o700)
      do throws(Errno) {
        let opened = try openLocked(pointer, in: directory.directory)
        return Place(opened, role, isLocal: true) {
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
  static func open(
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

  static let unpackingPrefix: Name = "unpacking-"
  static let streamPrefix: Name = "stream-"
  static let removedPrefix: Name = "removed-"

  /// What the name of a stream in this state begins with. A number follows.
  static func prefix(of state: StreamState) -> String { "\(streamPrefix)\(state.description)-" }

  static var pointer: UnsafePointer<CChar> {
    UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
  }
}

extension View {
  /// Takes an entry out of the view in one step.
  ///
  /// - Throws: EXDEV when the entry cannot be renamed into another directory of its own file system either, such as a directory
  ///   in an overlay's lower layer.
  func stage(
    _ name: UnsafePointer<CChar>, of directory: DirectoryHandle, as role: Staging.Role
  ) throws(Errno) -> Staging.Place {
    func move(to place: Staging.Place) throws(Errno) -> Staging.Place {
      switch role {
      case .removed(let record):
        try record.write(for: place.name, in: place.directory.directory, isLocal: place.isLocal)
      case .stream(_, let package):
        try Staging.StreamRecord(package: package.inode).write(for: place.name, in: place.directory.directory)
      case .unpacking, .reverted: break
      }
      do throws(Errno) {
        try CName(place.name).withPointer { (staged) throws(Errno) in
          try directory.directory.move(name, to: place.directory.directory, staged, .noReplace)
        }
      } catch {
        place.removeRecord()
        throw error
      }
      return place
    }
    if let place = try? packages.staging.enter(for: role) {
      do throws(Errno) { return try move(to: place) } catch {
        guard error == .improperLink else { throw error }
      }
    }
    return try move(to: Staging.enterLocal(in: directory, for: role))
  }

  /// A place in staging from which a package that is unpacked there can be renamed into a directory.
  func unpackingPlace(for directory: DirectoryHandle) throws(Errno) -> Staging.Place {
    if let place = try? packages.staging.enter(for: .unpacking),
      place.directory.identity.device == directory.identity.device
    {
      return place
    }
    return try Staging.enterLocal(in: directory, for: .unpacking)
  }

  /// Deletes an entry that an import has left in staging, with everything below it. It is no client's only copy. Must be called
  /// with no lock held.
  func discard(_ place: Staging.Place) {
    do throws(Errno) {
      try removeTree(place.name, in: place.directory.directory)
      place.removeRecord()
    } catch {
      guard error != .noSuchFileOrDirectory else { return }
      logger.error(
        "\(place.name) could not be deleted from \(Staging.name): \(error); the next mount tries again")
    }
  }
}
