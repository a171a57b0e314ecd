import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// An AppleDouble sidecar `._x` holds the metadata that a Macintosh keeps of `x` beside its data. It moves with `x`.
///
/// A sidecar follows after the operation on its entry has succeeded. If it cannot, that is logged and is no error.
extension View {
  /// The AppleDouble sidecar of an entry: `._x` with the format's magic number. Any other `._x` is an ordinary hidden file.
  func companion(of name: Name, in place: LockedDirectory) -> Name? {
    guard let view = place.view, let candidate = name.companion,
      let slot = view.projection.slot(realName: candidate.bytes.span),
      view.projection.summary(at: slot)?.kind == .file
    else { return nil }
    return FinderMetadata.isAppleDouble(candidate, in: place.handle.directory) ? candidate : nil
  }

  /// Moves the sidecar after a rename. If the renamed entry has none, a sidecar of the replaced entry now belongs to it.
  func moveCompanion(
    of from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ caller: Caller
  ) {
    guard let companion = companion(of: from, in: old), let target = to.companion else {
      return
    }
    rename(companion, in: old, to: target, in: new, [], caller)
  }

  /// Moves the sidecars after two entries were exchanged.
  func exchangeCompanions(
    of from: Name, in old: LockedDirectory, with: Name, in new: LockedDirectory, _ caller: Caller
  ) {
    guard let first = from.companion, let second = with.companion else { return }
    switch (companion(of: from, in: old), companion(of: with, in: new)) {
    case (nil, nil): break
    case (.some, .some): rename(first, in: old, to: second, in: new, .exchange, caller)
    case (.some, nil): rename(first, in: old, to: second, in: new, .noReplace, caller)
    case (nil, .some): rename(second, in: new, to: first, in: old, .noReplace, caller)
    }
  }

  /// Links the sidecar after a hard link was made: both names stand for one file, and both sidecars do too.
  ///
  /// - Parameter companion: the result of `companionOfLinked` from before.
  func linkCompanion(
    _ companion: Name, in old: DirectoryHandle, to: Name, in new: LockedDirectory, _ caller: Caller
  ) {
    guard let target = to.companion else { return }
    follow(companion) { () throws(Errno) in
      try CName(companion).withPointer { (from) throws(Errno) in
        try CName(target).withPointer { (to) throws(Errno) in
          try caller.actAsMember { () throws(Errno) in
            try old.directory.link(from, to: new.handle.directory, to)
          }
        }
      }
      noteChange([target], in: new.node, new.view)
    }
  }

  /// The sidecar of a file that is about to get another link. Called with no directory view locked.
  func companionOfLinked(_ location: NodeTable.Location) -> (name: Name, directory: DirectoryHandle)? {
    guard !isPlainMirror, let view = try? directoryView(location.parent) else { return nil }
    let place = LockedDirectory(node: location.parent, handle: view.handle, view: view)
    let found = try? view.withCurrent { (_) throws(Errno) in companion(of: location.name.name, in: place) }
    return found.flatMap { $0 }.map { ($0, view.handle) }
  }

  /// Removes the sidecar after its entry was removed.
  ///
  /// - Parameter companion: the result of `companion(of:in:)` from before.
  func removeCompanion(_ companion: Name, in place: LockedDirectory, _ credentials: Credentials) {
    follow(companion) { () throws(Errno) in
      try CName(companion).withPointer { (name) throws(Errno) in
        let status = try place.handle.status(name)
        try credentials.act { () throws(Errno) in try place.handle.directory.unlink(name) }
        let given = nodes.removed(
          FileIdentity(status), facet: .plain, from: place.node, name: name, isLast: status.st_nlink <= 1)
        noteChange([companion], in: place.node, place.view, isKnown: !given.isEmpty)
      }
    }
  }

  private func rename(
    _ from: Name, in old: LockedDirectory, to: Name, in new: LockedDirectory, _ flags: RenameFlags,
    _ caller: Caller
  ) {
    follow(from) { () throws(Errno) in
      try CName(from).withPointer { (fromName) throws(Errno) in
        try CName(to).withPointer { (toName) throws(Errno) in
          let moved = try old.handle.status(fromName)
          let replaced = try? new.handle.status(toName)
          try caller.actAsMember { () throws(Errno) in
            try old.handle.directory.rename(fromName, to: new.handle.directory, toName, flags)
          }
          let (oldPlace, newPlace) = ((old.node, CName(from)), (new.node, CName(to)))
          var given: AliasKinds = []
          if let replaced {
            given =
              flags.contains(.exchange)
              ? nodes.moved(FileIdentity(replaced), facet: .plain, from: newPlace, to: oldPlace)
              : nodes.removed(
                FileIdentity(replaced), facet: .plain, from: new.node, name: toName,
                isLast: replaced.st_nlink <= 1)
          }
          given.formUnion(nodes.moved(FileIdentity(moved), facet: .plain, from: oldPlace, to: newPlace))
          noteChange([from], in: old.node, old.view, isKnown: !given.isEmpty)
          noteChange([to], in: new.node, new.view, isKnown: false)
        }
      }
    }
  }

  private func follow(_ companion: Name, _ body: () throws(Errno) -> Void) {
    do throws(Errno) { try body() } catch {
      logger.warning("\(companion) could not be moved along with its file: \(error)")
    }
  }
}

extension Name {
  /// The name of the AppleDouble sidecar of an entry with this name. Nil for a sidecar, which has none of its own, and for a name
  /// that is too long to add the prefix.
  var companion: Name? {
    guard accompanied == nil, bytes.count <= 253 else { return nil }
    return Name(Array("._".utf8) + bytes)
  }

  /// The name of the entry whose AppleDouble sidecar a file of this name would be.
  var accompanied: Name? {
    guard bytes.count > 2, bytes[0] == 0x2e, bytes[1] == 0x5f else { return nil }
    return Name(bytes.dropFirst(2))
  }
}
