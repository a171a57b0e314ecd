import BackingTree
import DisplayNames
import Glibc
import SystemPackage

extension View {
  /// The data to remember when a display name that hides an extension goes away. Called before that, because it reads the file's
  /// Finder info.
  func tunnelMemory(of name: PreparedName, _ client: Client) -> TunnelMemory? {
    guard let entry = name.entry, entry.byDisplayName || entry.isMatch, entry.kind == .file else {
      return nil
    }
    if entry.realName.equals(name.bytes) {
      dropAllTunnelled(name)
      return nil
    }
    return TunnelMemory(
      directory: key(name.directory.node), display: form(of: name.typed), real: entry.realName.name,
      attributes: stored(of: entry.realName, in: name.directory, client))
  }

  private func stored(
    of name: CName, in directory: LockedDirectory, _ client: Client
  ) -> [Tunnel.Attribute] {
    // The listing shows which side files there are, without a system call for each that is not.
    inspector.metadata.stored(
      of: name, in: directory.handle.directory,
      sideFiles: directory.view?.listedSideFiles(of: name.name) ?? [.appleDouble, .netatalk], client: client)
  }

  /// The Finder info of a file that is about to be replaced. It stays with the name, because that is what a save by renaming
  /// means.
  func metadataToTransfer(
    of replaced: Resolved?, in directory: LockedDirectory, _ client: Client
  ) -> [Tunnel.Attribute] {
    guard let replaced, replaced.kind == .file,
      inspector.metadata.isPresent || replaced.byDisplayName && mayHideExtension(replaced, in: directory)
    else { return [] }
    return stored(of: replaced.realName, in: directory, client)
  }

  private func mayHideExtension(_ entry: Resolved, in directory: LockedDirectory) -> Bool {
    guard let slot = entry.slot else { return false }
    return directory.view?.projection.child(at: slot)?.stemLength != nil
  }

  /// A display name, and the real name and attributes that it stood for.
  struct TunnelMemory {
    let directory: UInt64
    let display: Name
    let real: Name
    let attributes: [Tunnel.Attribute]
  }

  /// Called after the display name went away.
  func recordInTunnel(_ memory: TunnelMemory?, client: Client) {
    guard let memory else { return }
    tunnel.record(
      directory: memory.directory, display: memory.display, real: memory.real, attributes: memory.attributes,
      user: client.user, process: client.threadGroup, now: monotonicNanoseconds())
  }

  /// The remembered data for a name that is about to be created.
  func recall(_ typed: Name, in parent: NodeID, client: Client) -> Tunnel.Remembered? {
    guard !tunnel.isEmpty else { return nil }
    let (directory, display) = (key(parent), form(of: typed))
    guard tunnel.mayRecall(directory: directory, display: display) else { return nil }
    return tunnel.peek(
      directory: directory, display: display, process: client.threadGroup, now: monotonicNanoseconds()
    )?.visible(to: client.user)
  }

  /// Drops the data of a name that was created again: it is used only once.
  func dropTunnelled(_ typed: Name, in parent: NodeID, client: Client) {
    _ = tunnel.take(
      directory: key(parent), display: form(of: typed), process: client.threadGroup,
      now: monotonicNanoseconds())
  }

  /// Drops what is remembered for a name that has stood for another file since.
  private func dropAllTunnelled(_ name: PreparedName) {
    guard !tunnel.isEmpty else { return }
    tunnel.remove(directory: key(name.directory.node), display: form(of: name.typed))
  }

  /// Restores attributes on a file that has just got the name.
  func restore(
    _ attributes: [Tunnel.Attribute], to name: CName, in directory: DirectoryHandle, client: Client
  ) {
    guard !attributes.isEmpty,
      let file = try? name.withPointer({ (name) throws(Errno) in
        try directory.directory.openRegular(name, O_RDONLY)
      })
    else { return }
    restore(attributes, to: file.descriptor, called: name.name, in: directory, client: client)
  }

  /// The same for an open file.
  func restore(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, called name: Name,
    in directory: DirectoryHandle, client: Client
  ) {
    log(
      inspector.metadata.restore(attributes, to: file, in: directory.directory, client: client), of: name)
  }

  /// Transfers the metadata of a file to its replacement, and then moves the replacement to its place. Where the transfer fails
  /// because the file system is full, or for another reason that passes, the move is refused and both files stay as they were:
  /// after the move the metadata would be lost.
  ///
  /// - Parameter replacement: the name of the replacement after the move.
  func transferring<R>(
    _ attributes: [Tunnel.Attribute], to name: Name, in old: LockedDirectory, becoming replacement: Name,
    in new: LockedDirectory, _ client: Client, _ move: () throws(Errno) -> R
  ) throws(Errno) -> R {
    let metadata = inspector.metadata
    guard !attributes.isEmpty else { return try move() }
    let opened: RegularFile
    do throws(Errno) {
      opened = try CName(name).withPointer { (name) throws(Errno) in
        try old.handle.directory.openRegular(name, O_RDONLY)
      }
    } catch {
      let failure = TransferFailure(attributes[0].name, error, at: old.handle.directory.descriptor)
      if failure.isPassing { throw error }
      log([failure], of: replacement)
      return try move()
    }
    let transfer = try metadata.transfer(attributes, to: opened.descriptor, client: client)
    let result: R
    do throws(Errno) { result = try move() } catch {
      metadata.withdraw(transfer, from: opened.descriptor, client: client)
      throw error
    }
    log(
      transfer.failures + metadata.restoreSideFiles(attributes, in: new.handle.directory, client: client),
      of: replacement)
    return result
  }

  private func log(_ failures: [TransferFailure], of name: Name) {
    for failure in failures {
      logger.warning(
        "\(name) has lost \(failure.name), which could not be transferred to its new file: \(failure.error)")
    }
  }

  /// Called when a directory is removed: the next directory with the same inode number must not get its entries.
  func dropTunnelEntries(of directory: FileIdentity) { tunnel.removeAll(in: Self.key(directory)) }

  /// Equal names have one memory: an editor may move a file away by one spelling and write it by another.
  private func form(of display: Name) -> Name { options.matching.sharedForm(of: display) }

  private func key(_ parent: NodeID) -> UInt64 { nodes.identity(of: parent).map(Self.key) ?? .max }

  private static func key(_ directory: FileIdentity) -> UInt64 {
    directory.inode ^ (directory.device &* 0x9e37_79b9_7f4a_7c15)
  }
}
