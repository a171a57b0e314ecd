import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// netatalk keeps the Mac metadata of `x` in `.AppleDouble/x` where it does not use extended attributes. That file, and those
/// with attributes beside it, are moved and removed with `x`, like an AppleDouble sidecar.
extension View {
  static let netatalkDirectory = CName(copying: ".AppleDouble")

  /// Called after a rename; with `.exchange`, after two entries have changed places.
  func moveNetatalkFile(
    of from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ flags: RenameFlags,
    _ client: Client
  ) {
    let isExchange = flags.contains(.exchange)
    let isIn = { (directory: LockedDirectory) in directory.view?.hasNetatalkDirectory ?? false }
    guard isIn(old) || isExchange && isIn(new) else { return }
    changeNetatalkFile(of: from) { () throws(Errno) in
      let moved = netatalkSuffixes(of: from, in: old)
      let replaced = netatalkSuffixes(of: to, in: new)
      // Most entries have no such file, and then their target directory needs no `.AppleDouble`.
      guard !moved.isEmpty || isExchange && !replaced.isEmpty else { return }
      let source = try netatalkDirectory(in: old, orNewAsIn: isExchange ? new : nil, client)
      let target = try netatalkDirectory(in: new, orNewAsIn: old, client)
      let (sourceFiles, targetFiles) = (
        Directory(descriptor: source.rawValue), Directory(descriptor: target.rawValue)
      )
      let credentials = client.credentials
      for directory in [source.rawValue, target.rawValue] {
        try credentials.checkAccess(W_OK | X_OK, to: directory)
      }
      try credentials.impersonate { () throws(Errno) in
        for suffix in moved.union(replaced) {
          try (from.bytes + suffix).withCName { (from) throws(Errno) in
            try (to.bytes + suffix).withCName { (to) throws(Errno) in
              let isOnBoth = moved.contains(suffix) && replaced.contains(suffix)
              if moved.contains(suffix) {
                try sourceFiles.rename(from, to: targetFiles, to, isExchange && isOnBoth ? .exchange : [])
              } else if isExchange {
                try targetFiles.rename(to, to: sourceFiles, from)
              } else {
                // Nothing of the replaced entry passes for the other's.
                try targetFiles.unlink(to)
              }
            }
          }
        }
      }
      old.view?.reconcile(from)
      new.view?.reconcile(to)
    }
  }

  /// Called after an entry was removed.
  func removeNetatalkFile(of name: Name, in place: LockedDirectory, _ client: Client) {
    guard place.view?.hasNetatalkDirectory ?? false else { return }
    changeNetatalkFile(of: name) { () throws(Errno) in
      let directory = try netatalkDirectory(in: place, client)
      let files = Directory(descriptor: directory.rawValue)
      let suffixes = netatalkSuffixes(of: name, in: place)
      let credentials = client.credentials
      try credentials.checkAccess(W_OK | X_OK, to: directory.rawValue)
      try credentials.impersonate { () throws(Errno) in
        for suffix in suffixes {
          try (name.bytes + suffix).withCName { (name) throws(Errno) in try files.unlink(name) }
        }
      }
    }
  }

  /// What follows the entry's name in the names of its files; empty where it has none.
  private func netatalkSuffixes(of name: Name, in place: LockedDirectory) -> Set<[UInt8]> {
    guard let opened = try? place.handle.subdirectory(".AppleDouble") else { return [] }
    let files = Directory(descriptor: opened.rawValue)
    let attributes = NetatalkAttributeFiles.suffixes(of: name, in: files)
    return Set(CName(name).withPointer { files.has($0) } ? [[]] + attributes : attributes)
  }

  /// - Parameter model: the directory with the `.AppleDouble` from which a new one takes its permissions, if one is to be made.
  ///   RENAME carries no umask.
  private func netatalkDirectory(
    in place: LockedDirectory, orNewAsIn model: LockedDirectory? = nil, _ client: Client
  ) throws(Errno) -> Descriptor {
    try Self.netatalkDirectory.withPointer { (name) throws(Errno) in
      do throws(Errno) { return try place.handle.subdirectory(name) } catch {
        guard let model, error == .noSuchFileOrDirectory else { throw error }
        let mode = try model.handle.status(name).st_mode & 0o777
        try client.impersonateWithGroups { () throws(Errno) in
          try place.handle.directory.makeDirectory(name, mode: mode)
        }
      }
      place.view?.reconcile(Self.netatalkDirectory.name)
      return try place.handle.subdirectory(name)
    }
  }

  private func changeNetatalkFile(of name: Name, _ change: () throws(Errno) -> Void) {
    do throws(Errno) { try change() } catch {
      if error == .noSuchFileOrDirectory { return }
      logger.warning("\(name): its metadata in .AppleDouble could not be moved along: \(error)")
    }
  }
}
