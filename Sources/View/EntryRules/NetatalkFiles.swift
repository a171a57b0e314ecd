import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// netatalk 2 keeps the Mac metadata of `x` in `.AppleDouble/x`. That file is moved and removed with `x`, like an AppleDouble
/// sidecar.
extension View {
  private static let directoryName: CName = CName(copying: ".AppleDouble")

  /// Called after a rename; with `.exchange`, after two entries have changed places.
  func moveNetatalkFile(
    of from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ flags: RenameFlags,
    _ client: Client
  ) {
    guard old.view?.hasNetatalkDirectory ?? false else { return }
    changeNetatalkFile(of: from) { () throws(Errno) in
      let source = try netatalkDirectory(in: old, createsMissing: false, client)
      // Most entries have no such file, and then their target directory needs no `.AppleDouble`.
      let isThere = CName(from).withPointer { Directory(descriptor: source.rawValue).has($0) }
      guard isThere else { return }
      let target = try netatalkDirectory(in: new, createsMissing: true, client)
      try CName(from).withPointer { (from) throws(Errno) in
        try CName(to).withPointer { (to) throws(Errno) in
          try client.impersonateWithGroups { () throws(Errno) in
            try Directory(descriptor: source.rawValue).rename(
              from, to: Directory(descriptor: target.rawValue), to, flags.intersection(.exchange))
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
      let directory = try netatalkDirectory(in: place, createsMissing: false, client)
      try CName(name).withPointer { (name) throws(Errno) in
        try client.impersonateWithGroups { () throws(Errno) in
          try Directory(descriptor: directory.rawValue).unlink(name)
        }
      }
    }
  }

  private func netatalkDirectory(in place: LockedDirectory, createsMissing: Bool, _ client: Client)
    throws(Errno)
    -> Descriptor
  {
    try Self.directoryName.withPointer { (name) throws(Errno) in
      do throws(Errno) { return try place.handle.subdirectory(name) } catch {
        guard createsMissing, error == .noSuchFileOrDirectory else { throw error }
      }
      try client.impersonateWithGroups { () throws(Errno) in
        try place.handle.directory.makeDirectory(name, mode: 0o777)
      }
      place.view?.reconcile(Self.directoryName.name)
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
