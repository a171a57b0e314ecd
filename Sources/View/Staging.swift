import BackingTree
import CFuse
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// Where that waits which is not yet in the view, or no longer: a hidden directory at the top of SOURCE, which is there
/// while something is in it. What a daemon that died leaves in it is settled by the next mount of the same SOURCE.
final class Staging: Sendable {
  static let name: StaticString = ".displayfs-staging"

  private let root: DirectoryHandle
  /// How many are using it. The last to leave removes the directory.
  private let users = Guarded(0)

  init(in root: DirectoryHandle) { self.root = root }

  /// A name of its own for something in staging. The directory stays as long as this is held.
  final class Place: Sendable {
    let directory: DirectoryHandle
    let name: Name
    private let staging: Staging?

    /// Whether it is in the directory that the entry itself is in: on another file system than SOURCE nothing else can
    /// be reached by a rename.
    var isBeside: Bool { staging == nil }

    fileprivate init(_ directory: DirectoryHandle, of staging: Staging) {
      self.directory = directory
      name = Name("\(UInt64.random(in: .min ... .max))")
      self.staging = staging
    }

    init(beside directory: DirectoryHandle) {
      self.directory = directory
      name = Name("\(Staging.name)-\(UInt64.random(in: .min ... .max))")
      staging = nil
    }

    deinit { staging?.leave() }
  }

  /// - Throws: EACCES where the directory is somebody else's, and the errno of making it.
  func enter() throws(Errno) -> Place {
    let opened: Result<DirectoryHandle, Errno> = users.withLock { users in
      do throws(Errno) {
        do throws(Errno) { try root.directory.makeDirectory(Self.pointer, mode: 0o700) } catch {
          if error != .fileExists { throw error }
        }
        let opened = try open()
        // Held as long as the directory is open: who mounts the same SOURCE once more leaves alone what is in it.
        if dfs_flock(opened.directory.descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK {
          throw .wouldBlock
        }
        users += 1
        return .success(opened)
      } catch { return .failure(error) }
    }
    return Place(try opened.get(), of: self)
  }

  private func leave() {
    users.withLock { users in
      users -= 1
      if users == 0 { try? root.directory.removeDirectory(Self.pointer) }
    }
  }

  /// What is in staging, once no other daemon is using it: neither another mount of the same SOURCE nor one that was killed
  /// and whose threads have not all ended.
  ///
  /// - Parameter waits: for as long as others are using it.
  /// - Returns: false when others are, and it was not waited for.
  func forEachLeftover(waits: Bool, _ body: (Name, Directory) -> Void) -> Bool {
    guard let opened = try? open() else { return true }
    do throws(Errno) {
      try systemCall { dfs_flock(opened.directory.descriptor, waits ? LOCK_EX : LOCK_EX | LOCK_NB) }
    } catch { return error != .wouldBlock }
    guard let readable = try? opened.directory.openForReading() else { return true }
    var names: [Name] = []
    try? forEachEntry(of: readable.rawValue) { names.append(Name($0.name)) }
    for name in names { body(name, opened.directory) }
    try? root.directory.removeDirectory(Self.pointer)
    return true
  }

  /// A directory of that name that is not the daemon's own is somebody's, and left alone.
  private func open() throws(Errno) -> DirectoryHandle {
    let opened = try root.directory.open(Self.pointer, O_RDONLY | O_DIRECTORY)
    let status = try fileStatus(opened.rawValue)
    guard status.st_uid == geteuid(), status.st_mode & 0o7777 == 0o700 else { throw .permissionDenied }
    return DirectoryHandle(adopting: opened, identity: FileIdentity(status), covered: nil)
  }

  private static var pointer: UnsafePointer<CChar> {
    UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
  }
}

extension View {
  /// Takes an entry out of the view in one step.
  func stage(_ name: UnsafePointer<CChar>, of directory: DirectoryHandle) throws(Errno) -> Staging.Place {
    func move(to place: Staging.Place) throws(Errno) -> Staging.Place {
      try CName(place.name).withPointer { (staged) throws(Errno) in
        try directory.directory.rename(name, to: place.directory.directory, staged, .noReplace)
      }
      return place
    }
    if let place = try? staging.enter() {
      do throws(Errno) { return try move(to: place) } catch {
        guard error == .improperLink else { throw error }
      }
    }
    return try move(to: Staging.Place(beside: directory))
  }

  /// A place from which something can be renamed into a directory.
  func place(for directory: DirectoryHandle) -> Staging.Place {
    if let place = try? staging.enter(), place.directory.identity.device == directory.identity.device {
      return place
    }
    return Staging.Place(beside: directory)
  }

  /// Deletes what is out of the view, with everything below it. May be called when no lock is held any more.
  func discard(_ place: Staging.Place) {
    do throws(Errno) {
      try removeTree(place.name, in: place.directory.directory)
    } catch {
      guard error != .noSuchFileOrDirectory else { return }
      logger.error(
        "\(place.name) could not be deleted from \(Staging.name): \(error); the next mount tries again")
    }
  }

  /// Settles what an earlier mount could not finish. Called when the mount starts, and once more where that was too early.
  ///
  /// - Parameter waits: for as long as another daemon is using what is staged.
  /// - Returns: false when another one is, and it was not waited for.
  @discardableResult public func finishStaged(waits: Bool = false) -> Bool {
    guard !isPlainMirror else { return true }
    return staging.forEachLeftover(waits: waits) { name, directory in
      if isWorthKeeping(name, in: directory) { return }
      do throws(Errno) {
        try removeTree(name, in: directory)
        logger.notice("cleaned up what an earlier mount had begun")
      } catch {
        logger.error("\(name) in \(Staging.name) cannot be deleted: \(error); delete it by hand")
      }
    }
  }

  /// A stream whose package is in the view may go; one that was written to since then is all there is of what was
  /// written.
  private func isWorthKeeping(_ name: Name, in directory: Directory) -> Bool {
    let stream = try? CName(name).withPointer { (name) throws(Errno) in
      try directory.openRegular(name, O_RDONLY)
    }
    guard let stream else { return false }
    if (try? PackageImport(checking: stream.descriptor.rawValue).checkData()) != nil { return false }
    logger.error(
      "\(name) in \(Staging.name) was a package's stream and has been written to since: look at it, then delete it"
    )
    return true
  }
}
