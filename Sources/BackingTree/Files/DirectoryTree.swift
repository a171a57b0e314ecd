import CLinux
import Glibc
import SystemPackage

/// Recursive operations on a directory, with the calling thread's credentials. They follow no symlink and enter no mount point.
/// The depth of the tree costs neither call stack nor descriptors.
public enum DirectoryTree {
  /// Checks that a user with write permission on a directory may remove an entry from it: in a sticky directory, only the
  /// user's own entries. (inode(7))
  ///
  /// - Throws: EPERM.
  public static func check(_ entry: stat, in directory: stat, _ credentials: Credentials) throws(Errno) {
    let user = credentials.effectiveUser
    guard directory.st_mode & S_ISVTX != 0, user != 0, directory.st_uid != user, entry.st_uid != user
    else { return }
    throw .notPermitted
  }

  /// Checks that everything below a directory can be removed.
  ///
  /// - Throws: EACCES and EPERM for an entry that may not be removed, such as an immutable or append-only one; EBUSY for a mount
  ///   point; the errors of reading the tree.
  public static func checkRemovable(_ top: Directory, _ credentials: Credentials) throws(Errno) {
    try walk(top) { (directory) throws(Errno) in
      let status = try directory.status()
      let isSticky = status.st_mode & S_ISVTX != 0
      var isEmpty = true
      var subdirectories: [[UInt8]] = []
      try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
        isEmpty = false
        // A program may remove an entry meanwhile.
        try ignoringMissing { () throws(Errno) in
          var type = entry.type
          if isSticky || type == .unknown {
            let found = try directory.status(entry.cName)
            type = FileType(mode: found.st_mode)
            try check(found, in: status, credentials)
          }
          try directory.checkRemovable(entry.cName)
          if type == .directory { subdirectories.append(Array(entry.name)) }
        }
      }
      if !isEmpty {
        try directory.check(".", W_OK | X_OK)
        try credentials.checkAccess(W_OK | X_OK, to: directory.descriptor)
      }
      return subdirectories
    } leaving: { _, _ in
    }
  }

  /// Checks, as far as reading it with these credentials does not, that everything below a directory may be read.
  ///
  /// - Throws: EACCES; the errors of reading the tree.
  public static func checkReadable(_ top: Directory, _ credentials: Credentials) throws(Errno) {
    if credentials.limitCalls { return }
    try forEachDirectory(top) { (directory) throws(Errno) in
      try credentials.checkAccess(R_OK | X_OK, to: directory.descriptor)
      var subdirectories: [[UInt8]] = []
      try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
        switch entry.type == .unknown
          ? FileType(mode: try directory.status(entry.cName).st_mode) : entry.type
        {
        case .directory: subdirectories.append(Array(entry.name))
        case .regular:
          let file = try directory.locate(entry.cName)
          try credentials.checkAccess(R_OK, to: file.rawValue)
        default: break
        }
      }
      return subdirectories
    }
  }

  /// Removes everything below a directory.
  ///
  /// - Parameters:
  ///   - addsPermissions: whether to give the owner all permissions on each directory below the top first, as far as the caller
  ///     is the owner.
  ///   - willEmpty: called with each directory before its entries are removed.
  public static func empty(
    _ top: Directory, addsPermissions: Bool = false, _ willEmpty: (FileIdentity) -> Void = { _ in }
  ) throws(Errno) {
    try walk(top) { (directory) throws(Errno) in
      willEmpty(FileIdentity(try directory.status()))
      var subdirectories: [[UInt8]] = []
      // Read all names first: some file systems skip entries when other entries are removed between two reads.
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
        try ignoringMissing { () throws(Errno) in
          try file.withCName { (file) throws(Errno) in try directory.unlink(file) }
        }
      }
      for name in subdirectories where addsPermissions {
        name.withCName { try? directory.setPermissions($0, S_IRWXU) }
      }
      return subdirectories
    } leaving: { (parent, name) throws(Errno) in
      try ignoringMissing { () throws(Errno) in
        try name.withCName { (name) throws(Errno) in try parent.removeDirectory(name) }
      }
    }
  }

  /// Calls `body` with each directory of a tree, open for reading. It returns the names of the sub-directories to enter. Those
  /// that are gone, or are mount points, are left out.
  ///
  /// - Throws: EIO or EBUSY where a directory above was moved meanwhile; what `body` throws.
  public static func forEachDirectory(
    _ top: Directory, _ body: (Directory) throws(Errno) -> [[UInt8]]
  ) throws(Errno) {
    try walk(top, skipping: [.noSuchFileOrDirectory, .notDirectory, .improperLink], entering: body) { _, _ in
    }
  }

  /// Walks a tree in depth-first order.
  ///
  /// - Parameters:
  ///   - skipping: the errors of entering a directory upon which it is left out.
  ///   - entering: called with each directory, open for reading, before the directories below it. Returns the names of the
  ///     sub-directories to enter.
  ///   - leaving: called with the parent and the name of each directory but the top, after everything below it.
  private static func walk(
    _ top: Directory, skipping: [Errno] = [.noSuchFileOrDirectory],
    entering: (Directory) throws(Errno) -> [[UInt8]],
    leaving: (_ parent: Directory, _ name: [UInt8]) throws(Errno) -> Void
  ) throws(Errno) {
    var cursor = try TreeCursor(top)
    // For each directory from the top to the cursor: the sub-directories still to be entered, and the directory's name.
    var pending = [try entering(cursor.directory)]
    var names: [[UInt8]] = []
    while true {
      if let name = pending[pending.count - 1].popLast() {
        do throws(Errno) {
          try name.withCName { (name) throws(Errno) in try cursor.enter(name) }
        } catch {
          if skipping.contains(error) { continue }
          throw error == .improperLink ? .resourceBusy : error
        }
        names.append(name)
        pending.append(try entering(cursor.directory))
      } else {
        pending.removeLast()
        guard let name = names.popLast() else { return }
        // `..` of a directory that was moved meanwhile leads to an unchecked directory.
        do throws(Errno) { try cursor.leave() } catch { throw error == .ioError ? .resourceBusy : error }
        try leaving(cursor.directory, name)
      }
    }
  }

  private static func ignoringMissing(_ body: () throws(Errno) -> Void) throws(Errno) {
    do throws(Errno) { try body() } catch { if error != .noSuchFileOrDirectory { throw error } }
  }
}
