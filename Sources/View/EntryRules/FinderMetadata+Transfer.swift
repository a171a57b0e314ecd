import BackingTree
import CLinux
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Transfers metadata from a file to the one that takes its place.
extension FinderMetadata {
  /// The metadata to transfer when a file takes another's place: the attributes of all stores that the entry has, DOS
  /// attributes included; the streams in Samba's depot, under their names; and the side files, under their paths. The
  /// client may read the copies, so only what it may read is transferred.
  ///
  /// - Parameter sideFiles: the kinds that the entry may have.
  func stored(
    of name: CName, in directory: Directory, sideFiles: SideFiles, client: Client
  ) -> [Tunnel.Attribute] {
    func readable(_ path: [UInt8], in directory: Directory, as name: [UInt8]? = nil) -> Tunnel.Attribute? {
      path.withCName { cPath in
        guard let status = try? directory.cachedStatus(cPath) else { return nil }
        let bytes = (try? client.openRegular(cPath, in: directory, O_RDONLY))?
          .beginning(limit: Tunnel.attributeLimit)
        guard let bytes, bytes.count < Tunnel.attributeLimit else { return nil }
        return Tunnel.Attribute(
          name: name ?? path, value: bytes,
          audience: FileAudience(status, ExtendedAttributes(of: cPath, in: directory)))
      }
    }
    return name.withPointer { cName in
      let attributes = ExtendedAttributes(of: cName, in: directory)
      var fromSideFiles = Self.paths(of: name.name, sideFiles).compactMap { path in
        readable(path, in: directory).flatMap { AppleDouble($0.value) == nil ? nil : $0 }
      }
      if let path = fromSideFiles.last?.name, path.contains(UInt8(ascii: "/")),
        let opened = try? directory.subdirectory(".AppleDouble")
      {
        let files = Directory(descriptor: opened.rawValue)
        fromSideFiles += NetatalkAttributeFiles.suffixes(of: name.name, in: files).compactMap { suffix in
          readable(path + suffix, in: directory)
        }
      }
      var stores: [[UInt8]] = []
      var isInDepot = false
      try? attributes.forEachName { attribute in
        let bytes = Array(UnsafeRawBufferPointer(start: attribute, count: strlen(attribute)))
        if case .depot = Self.store(attribute) {
          isInDepot = true
        } else if Self.store(attribute) != nil || DesktopAttribute.storage(bytes) != nil {
          stores.append(bytes)
        }
      }
      var result = stores.isEmpty ? [] : Self.readable(stores, of: cName, in: directory, client)
      if isInDepot, let root, let streams = depotPath(of: name.name, in: directory) {
        result += SambaDepot.itemStreams.compactMap { stream in
          readable(Self.depotFile(stream, in: streams), in: root.directory, as: Array(stream.utf8))
        }
      }
      return result + fromSideFiles
    }
  }

  /// The attributes of those names that the client may read.
  private static func readable(
    _ names: [[UInt8]], of file: UnsafePointer<CChar>, in directory: Directory, _ client: Client
  ) -> [Tunnel.Attribute] {
    // Another file may take the name meanwhile: the rights are those on the file that is read.
    guard let opened = try? directory.open(file, dfs_O_PATH | O_NOFOLLOW),
      let status = try? fileStatus(opened.rawValue), FileType(mode: status.st_mode) == .regular
    else { return [] }
    if status.st_uid != client.user,
      (try? client.credentials.checkAccess(R_OK, to: opened.rawValue)) == nil
    {
      return []
    }
    let attributes = ExtendedAttributes(of: opened.rawValue)
    var result: [Tunnel.Attribute] = []
    try? withRights(of: client, on: status) {
      result = names.compactMap { name in
        name.withCName { attributes.value($0, limit: Tunnel.attributeLimit) }.map {
          Tunnel.Attribute(name: name, value: $0)
        }
      }
    }
    return result
  }

  /// Runs `body` with the client's rights on the attributes of a file. The owner could change the file's mode first, so the mode
  /// does not limit the owner: tags are transferred to a file that is saved with mode 0444, too.
  private static func withRights(of client: Client, on file: stat, _ body: () -> Void) throws(Errno) {
    if file.st_uid == client.user { return body() }
    try client.impersonateWithGroups { () throws(Errno) in body() }
  }

  /// Adds the transferred metadata to a file, as far as it has none of its own. Where the backing file system refuses, the file
  /// stays without it, as it does where the client may not write it: a client may rename a file over another that it may not write.
  ///
  /// - Returns: what was not added.
  func restore(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, in directory: Directory, client: Client
  ) -> [TransferFailure] {
    var transfer = MetadataTransfer()
    add(attributes, to: file, client, &transfer)
    return transfer.failures + restoreSideFiles(attributes, in: directory, client: client)
  }

  /// Adds the metadata that is kept with a file itself, before the file takes the place of another.
  ///
  /// - Returns: what was added, and what was not.
  /// - Throws: an error that passes, such as that of a full file system. Nothing has been added then.
  func transfer(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, client: Client
  ) throws(Errno) -> MetadataTransfer {
    var transfer = MetadataTransfer()
    add(attributes, to: file, client, &transfer)
    for failure in transfer.failures where failure.isPassing {
      withdraw(transfer, from: file, client: client)
      throw failure.error
    }
    return transfer
  }

  /// Removes what was added to a file that does not take the place of another after all.
  func withdraw(_ transfer: MetadataTransfer, from file: borrowing Descriptor, client: Client) {
    guard !transfer.added.isEmpty, let status = try? fileStatus(file.rawValue) else { return }
    let stored = ExtendedAttributes(of: file.rawValue)
    // Without its mark nothing reads what was put into Samba's depot.
    try? Self.withRights(of: client, on: status) {
      for name in transfer.added { name.withCName { try? stored.remove($0) } }
    }
  }

  /// Adds the files beside an entry that hold its metadata, as far as there are none.
  ///
  /// - Returns: what was not added.
  func restoreSideFiles(
    _ attributes: [Tunnel.Attribute], in directory: Directory, client: Client
  ) -> [TransferFailure] {
    // A list and the files that it names are one store: the file has its own, or gets this one.
    let hasList = attributes.lazy.compactMap { NetatalkAttributeFiles.list(at: $0.name) }.first
      .map { $0.withCName { directory.has($0) } }
    var failures: [TransferFailure] = []
    for attribute in attributes where attribute.name.first == UInt8(ascii: ".") {
      if hasList == true, NetatalkAttributeFiles.list(at: attribute.name) != nil { continue }
      do throws(Errno) { try writeSideFile(attribute, in: directory, client) } catch {
        if error == .fileExists { continue }
        failures.append(TransferFailure(attribute.name, error, at: directory.descriptor))
      }
    }
    return failures
  }

  /// Adds attributes, and streams in Samba's depot, until one cannot be added for a reason that passes.
  private func add(
    _ attributes: [Tunnel.Attribute], to file: borrowing Descriptor, _ client: Client,
    _ transfer: inout MetadataTransfer
  ) {
    let streams = attributes.filter { $0.name.first == UInt8(ascii: ":") }
    let own = attributes.filter { ![UInt8(ascii: ":"), UInt8(ascii: ".")].contains($0.name.first) }
    let descriptor = file.rawValue
    if let first = streams.first {
      do throws(Errno) {
        if try writeToDepot(streams, of: file, client) {
          transfer.added.append(Array(SambaDepot.marker.utf8))
        }
      } catch {
        transfer.failures.append(TransferFailure(first.name, error, at: descriptor))
        if transfer.failures[0].isPassing { return }
      }
    }
    guard !own.isEmpty, let status = try? fileStatus(descriptor) else { return }
    let stored = ExtendedAttributes(of: descriptor)
    do throws(Errno) {
      try Self.withRights(of: client, on: status) {
        for attribute in own {
          do throws(Errno) {
            try attribute.name.withCName { (name) throws(Errno) in
              try attribute.value.withUnsafeBytesTyped { (value) throws(Errno) in
                try stored.set(name, value, flags: CInt(1) /* XATTR_CREATE */)
              }
            }
            transfer.added.append(attribute.name)
          } catch {
            if error == .fileExists { continue }
            let failure = TransferFailure(attribute.name, error, at: descriptor)
            transfer.failures.append(failure)
            if failure.isPassing { return }
          }
        }
      }
    } catch { transfer.failures.append(TransferFailure(own[0].name, error, at: descriptor)) }
  }

  private func writeSideFile(
    _ file: Tunnel.Attribute, in directory: Directory, _ client: Client
  ) throws(Errno) {
    let parts = file.name.split(separator: UInt8(ascii: "/")).map(Array.init)
    try client.impersonateWithGroups { () throws(Errno) in
      let folder = try (parts.count == 1 ? [UInt8(ascii: ".")] : parts[0]).withCName { (name) throws(Errno) in
        try directory.subdirectory(name)
      }
      try Self.create(parts[parts.count - 1], in: Directory(descriptor: folder.rawValue), file)
    }
  }

  private static func create(
    _ name: [UInt8], in directory: Directory, _ content: Tunnel.Attribute
  ) throws(Errno) {
    let file = try name.withCName { (name) throws(Errno) in
      try directory.open(name, O_WRONLY | O_CREAT | O_EXCL, mode: content.audience?.modeOfNewFile ?? 0o644)
    }
    do throws(Errno) {
      try content.audience?.apply(to: file)
      try content.value.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try writeFully(file.rawValue, bytes, at: 0)
      }
    } catch {
      // An incomplete file would count as damaged metadata, and prevent that a later request writes it completely.
      name.withCName { name in
        let found = try? directory.status(name)
        if let found, let made = try? fileStatus(file.rawValue), FileIdentity(found) == FileIdentity(made) {
          try? directory.unlink(name)
        }
      }
      throw error
    }
  }

  /// Writes the streams with the client's credentials, as Samba does with those of the connected user.
  ///
  /// - Returns: whether the file had none before.
  private func writeToDepot(
    _ attributes: [Tunnel.Attribute], of file: borrowing Descriptor, _ client: Client
  ) throws(Errno) -> Bool {
    let stored = ExtendedAttributes(of: file.rawValue)
    guard let root, stored.value(SambaDepot.marker, limit: Self.largestValue) == nil else { return false }
    let path = Self.depotPath(of: try fileStatus(file.rawValue)).split(separator: UInt8(ascii: "/"))
    try client.impersonateWithGroups { () throws(Errno) in
      var streams = try Array(path[0]).withCName { (name) throws(Errno) in try root.subdirectory(name) }
      for name in path.dropFirst() {
        streams = try Array(name).withCName { (name) throws(Errno) in
          let parent = Directory(descriptor: streams.rawValue)
          do throws(Errno) { try parent.makeDirectory(name, mode: 0o755) } catch {
            guard error == .fileExists else { throw error }
          }
          return try parent.subdirectory(name)
        }
      }
      let directory = Directory(descriptor: streams.rawValue)
      // The file lacks the marker attribute, so what is in the directory belonged to an earlier file with this inode number.
      let readable = try directory.openForReading()
      try forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in try directory.unlink(entry.cName) }
      for stream in attributes { try Self.create(stream.name, in: directory, stream) }
    }
    // Without the mark nothing reads the streams.
    var failure: Errno?
    try Self.withRights(of: client, on: fileStatus(file.rawValue)) {
      do throws(Errno) {
        try SambaDepot.mark.withUnsafeBytesTyped { (mark) throws(Errno) in
          try stored.set(SambaDepot.marker, mark, flags: 0)
        }
      } catch { failure = error }
    }
    if let failure { throw failure }
    return true
  }
}

/// The outcome of a transfer of metadata from a file to its replacement.
struct MetadataTransfer {
  /// The names of the attributes that were added to the replacement.
  var added: [[UInt8]] = []
  var failures: [TransferFailure] = []
}

/// An attribute or a sidecar that could not be transferred from a file to its replacement.
struct TransferFailure {
  /// The attribute, or the file that holds it.
  let name: Name
  let error: Errno
  /// Whether the same may succeed once the machine has room again.
  let isPassing: Bool

  private static let shortages: [Errno] = [
    Errno(rawValue: EDQUOT), .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory,
  ]
  /// With this much space available no attribute fails for lack of space: its value has 64 KiB at most.
  private static let ample = 1 << 20

  /// - Parameter file: a file or directory on the file system.
  init(_ name: [UInt8], _ error: Errno, at file: CInt) {
    self.name = Name(name)
    self.error = error
    isPassing = Self.shortages.contains(error) || error == .noSpace && Self.isFull(file)
  }

  /// ext4 also fails with ENOSPC where the value is too large for the file, which does not pass.
  private static func isFull(_ file: CInt) -> Bool {
    var status = statvfs()
    guard fstatvfs(file, &status) == 0 else { return false }
    return UInt64(status.f_bavail) * UInt64(status.f_frsize) < UInt64(ample)
  }
}
