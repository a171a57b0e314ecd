import CFuse
import Glibc
import SystemPackage

/// Work on a directory with all that is below it, by the calling thread's credentials. No symlink is followed and no mount
/// point entered. The depth costs neither call stack nor descriptors.
public enum DirectoryTree {
  /// Checks that a user may remove an entry from a directory that the user may write to: in a sticky one, only what is the
  /// user's own. (inode(7))
  ///
  /// - Throws: EPERM.
  public static func check(_ entry: stat, in directory: stat, _ credentials: Credentials) throws(Errno) {
    let user = credentials.effectiveUser
    guard directory.st_mode & S_ISVTX != 0, user != 0, directory.st_uid != user, entry.st_uid != user
    else { return }
    throw .notPermitted
  }

  /// Checks that all that is below a directory can be removed.
  ///
  /// - Throws: EACCES and EPERM for what may not be removed, EBUSY for a mount point, and the errno of looking.
  public static func checkRemovable(_ top: Directory, _ credentials: Credentials) throws(Errno) {
    try walk(top) { (directory) throws(Errno) in
      let status = try directory.status()
      let mayHoldOthers = status.st_mode & S_ISVTX != 0
      var isEmpty = true
      var subdirectories: [[UInt8]] = []
      try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
        isEmpty = false
        var type = entry.type
        if mayHoldOthers || type == .unknown {
          let found = try directory.status(entry.cName)
          type = FileType(mode: found.st_mode)
          try check(found, in: status, credentials)
        }
        if type == .directory { subdirectories.append(Array(entry.name)) }
      }
      if !isEmpty { try directory.check(".", W_OK | X_OK) }
      return subdirectories
    } leaving: { _, _ in
    }
  }

  /// Deletes all that is below a directory.
  ///
  /// - Parameter willEmpty: called with each directory whose entries are about to be deleted.
  public static func empty(_ top: Directory, _ willEmpty: (FileIdentity) -> Void = { _ in }) throws(Errno) {
    try walk(top) { (directory) throws(Errno) in
      willEmpty(FileIdentity(try directory.status()))
      var subdirectories: [[UInt8]] = []
      // All names first: some file systems skip entries when others are deleted while they are read.
      var files: [[UInt8]] = []
      try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
        var type = entry.type
        if type == .unknown { type = FileType(mode: try directory.status(entry.cName).st_mode) }
        if type == .directory {
          subdirectories.append(Array(entry.name))
        } else {
          files.append(Array(entry.name))
        }
      }
      for file in files {
        try unlessGone { () throws(Errno) in
          try file.withCName { (file) throws(Errno) in try directory.unlink(file) }
        }
      }
      return subdirectories
    } leaving: { (parent, name) throws(Errno) in
      try unlessGone { () throws(Errno) in
        try name.withCName { (name) throws(Errno) in try parent.removeDirectory(name) }
      }
    }
  }

  /// - Parameters:
  ///   - entering: given each directory, open for reading, before what is below it. - Returns: the names of the sub-directories
  ///     to enter.
  ///   - leaving: given the parent and the name of each directory but the top, after what is below it.
  private static func walk(
    _ top: Directory, entering: (Directory) throws(Errno) -> [[UInt8]],
    leaving: (_ parent: Directory, _ name: [UInt8]) throws(Errno) -> Void
  ) throws(Errno) {
    var place = try TreeCursor(top)
    // Of the directories on the way to the cursor's place, the top first: which are still to be entered, and the names.
    var pending = [try entering(place.directory)]
    var names: [[UInt8]] = []
    while true {
      if let name = pending[pending.count - 1].popLast() {
        do throws(Errno) {
          try name.withCName { (name) throws(Errno) in try place.enter(name) }
        } catch {
          if error == .noSuchFileOrDirectory { continue }
          throw error == .improperLink ? .resourceBusy : error
        }
        names.append(name)
        pending.append(try entering(place.directory))
      } else {
        pending.removeLast()
        guard let name = names.popLast() else { return }
        // A directory that was moved meanwhile leads elsewhere, where nothing has been checked.
        do throws(Errno) { try place.leave() } catch { throw error == .ioError ? .resourceBusy : error }
        try leaving(place.directory, name)
      }
    }
  }

  private static func unlessGone(_ body: () throws(Errno) -> Void) throws(Errno) {
    do throws(Errno) { try body() } catch { if error != .noSuchFileOrDirectory { throw error } }
  }
}
