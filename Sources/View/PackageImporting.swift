import BackingTree
import DisplayNames
import Glibc
import PackageStream
import SystemPackage

/// A package's stream that was written into the view becomes the package again when the file is closed.
///
/// The stream is checked whole, unpacked beside under a hidden name, made lasting, and put in place by one rename. Until
/// then, and whenever anything is wrong with it, the file stays what it is.
extension View {
  private static let unpacking: StaticString = ".displayfs-unpacking-"

  /// Looks at a file that is being closed by somebody who may have written it, and makes a package of it if it is one.
  func importPackage(_ file: OpenFile, caller: Caller) {
    guard importsPackages, file.mayWrite, options.packages == .file,
      let location = nodes.location(of: file.node), location.facet == .plain
    else { return }
    importPackage(at: location.parent, realName: location.name, identity: location.identity, caller: caller)
  }

  /// The same for a file that has just got the name it is to be seen under.
  func importPackage(
    at parent: NodeID, realName: CName, identity: FileIdentity, caller: Caller
  ) {
    let name = realName.name
    do throws(Errno) {
      let handle = try directory(parent)
      // Read by the daemon: whoever wrote the file need not be allowed to read it.
      let stream = try realName.withPointer { (name) throws(Errno) in
        try handle.directory.open(name, O_RDONLY | O_NONBLOCK)
      }
      let status = try fileStatus(stream.rawValue)
      // Only what is the caller's own: root may close a file that somebody else has filled.
      guard FileIdentity(status) == identity, status.st_uid == caller.user,
        let type = PackageImport.type(of: stream.rawValue)
      else { return }
      try importPackage(stream, type: type, name, in: handle, parent, caller)
    } catch {
      logger.error("\(name) holds a package but stays a file: \(error)")
    }
  }

  private func importPackage(
    _ stream: borrowing Descriptor, type: String, _ name: Name, in handle: DirectoryHandle, _ parent: NodeID,
    _ caller: Caller
  ) throws(Errno) {
    let view = try directoryView(parent)
    guard let real = inspector.packageName(for: name, type: type, at: view.site) else {
      logger.notice("\(name) holds a package of the type \(type), but under this name it stays a file")
      return
    }
    let checked: PackageImport
    do throws(PackageImportError) {
      checked = try PackageImport(checking: stream.rawValue)
    } catch {
      // A copy that is still being written ends too soon; only its last close is worth a word.
      logger.notice("\(name) begins like a package but stays a file: \(error)")
      return
    }
    let temporary = Name("\(Self.unpacking)\(UInt64.random(in: .min ... .max))")
    let temporaryName = CName(temporary)
    try temporaryName.withPointer { (temporary) throws(Errno) in
      try caller.act { () throws(Errno) in try handle.directory.makeDirectory(temporary, mode: 0o700) }
    }
    do throws(PackageImportError) {
      try unpack(checked, into: temporaryName, in: handle, caller)
    } catch {
      try? removeTree(temporary, in: handle.directory)
      logger.error("\(name) holds a package but stays a file: \(error)")
      return
    }
    do throws(Errno) {
      try view.changing { (isReadable) throws(Errno) in
        guard isReadable else { throw .permissionDenied }
        try swapIn(temporaryName, for: CName(name), as: CName(real), in: handle, parent, view, caller)
      }
    } catch {
      try? removeTree(temporary, in: handle.directory)
      throw error
    }
  }

  private func unpack(
    _ checked: PackageImport, into temporary: CName, in handle: DirectoryHandle, _ caller: Caller
  ) throws(PackageImportError) {
    var failure: PackageImportError?
    do throws(Errno) {
      let target = try temporary.withPointer { (name) throws(Errno) in
        try handle.directory.open(name, O_RDONLY | O_DIRECTORY)
      }
      // The caller's, never the stream's owners: closing a file must not make files of somebody else's.
      try caller.actAsMember { () throws(Errno) in
        do throws(PackageImportError) {
          try checked.unpack(into: Directory(descriptor: target.rawValue), owners: .caller)
        } catch { failure = error }
      }
    } catch { throw PackageImportError(failed: error) }
    if let failure { throw failure }
  }

  /// The package takes the place of the file. If the names differ both are there for a moment, each whole.
  private func swapIn(
    _ temporary: CName, for file: CName, as real: CName, in handle: DirectoryHandle, _ parent: NodeID,
    _ view: DirectoryView, _ caller: Caller
  ) throws(Errno) {
    let status = try file.withPointer { (name) throws(Errno) in try handle.status(name) }
    let leftover: CName
    if real.name == file.name {
      try rename(temporary, real, .exchange, in: handle, caller)
      leftover = temporary
    } else {
      try rename(temporary, real, .noReplace, in: handle, caller)
      leftover = file
    }
    try leftover.withPointer { (name) throws(Errno) in
      try caller.act { () throws(Errno) in try handle.directory.unlink(name) }
    }
    file.withPointer {
      nodes.removed(FileIdentity(status), facet: .plain, from: parent, name: $0, isLast: status.st_nlink <= 1)
    }
    for name in [temporary, file, real] { view.reconcile(name.name) }
  }

  private func rename(
    _ from: CName, _ to: CName, _ flags: RenameFlags, in handle: DirectoryHandle, _ caller: Caller
  ) throws(Errno) {
    try from.withPointer { (from) throws(Errno) in
      try to.withPointer { (to) throws(Errno) in
        try caller.act { () throws(Errno) in
          try handle.directory.rename(from, to: handle.directory, to, flags)
        }
      }
    }
  }
}

extension EntryInspector {
  /// The real name under which a package of a type is stored when it was given a name; nil when under that name it
  /// would not be a package, or not be seen.
  func packageName(for name: Name, type: String, at site: Site) -> Name? {
    guard !site.place.contains(.insidePackage), !isHiddenByName(name, at: site) else { return nil }
    if let kind = site.rules.verdict(on: name.bytes.span, isDirectory: true).kind {
      return kind.value == .package ? name : nil
    }
    if packageTypes.identifier(of: name) == type, packageTypes.type(of: name.bytes.span) != nil {
      return name
    }
    // Whoever typed another known extension wants that: a stream saved as `Calculator.tar` is an archive.
    if hasKnownExtension(name) { return nil }
    guard let ext = packageTypes.fileExtension(of: type) else {
      // A package by its bundle bit, which travels in the stream.
      return type == PackageType.byBundleBit.uti && metadata.isThere ? name : nil
    }
    let real = Name(name.bytes + [0x2e] + Array(ext.utf8))
    return real.fits ? real : nil
  }
}
