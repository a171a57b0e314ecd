import BackingTree
import Glibc
import SystemPackage

/// Creates a package's parts from members that `StreamScanner` has checked.
struct PackageUnpacking: ~Copyable {
  private let package: Directory
  private let stream: CInt
  private let owners: PackageImport.Ownership
  private let writers: WritePermission?
  /// The package's directory, opened for reading before its mode is set.
  private let opened: Descriptor
  /// The directory of the last member created.
  private var cursor: TreeCursor
  private let buffer: UnsafeMutableRawBufferPointer
  /// The checksum of the last file's data, and the file's path.
  private var sum = DataChecksum()
  private var summed: [UInt8] = []

  private static let newDirectory: mode_t = 0o700
  private static let newFile: mode_t = 0o600

  init(
    into package: Directory, from stream: CInt, owners: PackageImport.Ownership, writers: WritePermission?
  ) throws(PackageImportError) {
    let opened = try doing("Opening the directory") { () throws(Errno) in try package.openForReading() }
    let cursor = try doing("Opening the directory") { () throws(Errno) in try TreeCursor(package) }
    let raw = opened.rawValue
    try doing("Preparing the directory") { () throws(Errno) in
      try forEachEntry(of: raw) { (_) throws(Errno) in throw Errno.directoryNotEmpty }
      // Entries created here would inherit a default access list of the directory.
      let attributes = ExtendedAttributes(of: raw)
      for name in try attributes.namesIfAny() where CarriedAttributes.contains(name) {
        try name.withCName { (cName) throws(Errno) in try attributes.remove(cName) }
      }
      try setPermissions(raw, try fileStatus(raw).st_mode & S_ISGID | Self.newDirectory)
    }
    self.package = package
    self.stream = stream
    self.owners = owners
    self.writers = writers
    self.opened = opened
    self.cursor = cursor
    buffer = .allocate(byteCount: 256 << 10, alignment: 4096)
  }

  deinit { buffer.deallocate() }

  /// Creates a member. A directory can be filled afterwards and gets its attributes from `finish`.
  mutating func make(_ found: StreamScanner.Found) throws(PackageImportError) {
    let member = found.member
    if let recordedSum = member.precedingSum, recordedSum != sum.value {
      throw .damaged("The data of \(readable(summed)) is damaged: its checksum is not what the stream says.")
    }
    if member.path.isEmpty { return }
    let name = try enterParent(of: member.path)
    let directory = cursor.directory
    switch member.kind {
    case .directory:
      try on(member, "Making") { (name) throws(Errno) in
        try directory.makeDirectory(name, mode: Self.newDirectory)
      }
    case .regular:
      try makeFile(found, name, in: directory)
    case .hardLink:
      try makeLink(member, name, in: directory)
    case .symlink:
      try on(member, "Making") { (name) throws(Errno) in
        try member.target.withCName { (target) throws(Errno) in try directory.makeSymlink(name, to: target) }
      }
      try restoreNode(member, in: directory)
    case .fifo:
      try on(member, "Making") { (name) throws(Errno) in
        try directory.makeNode(name, mode: S_IFIFO | Self.newFile, device: 0)
      }
      try restoreNode(member, in: directory)
    case .characterDevice, .blockDevice:
      throw .refused(member.path, "is a device")
    }
  }

  /// Sets a directory's attributes as recorded in the stream, after all of its entries have been created.
  mutating func finish(_ member: PaxMember) throws(PackageImportError) {
    try doing("Opening \(readable(member.path))") { () throws(Errno) in try cursor.move(to: member.path) }
    try restore(member, cursor.directory.descriptor)
  }

  /// Returns when everything is on the disk.
  func sync() throws(PackageImportError) {
    let raw = opened.rawValue
    try doing("Writing the package to the disk") { () throws(Errno) in try syncFileSystem(of: raw) }
  }

  // MARK: - Creating

  /// Moves to the directory that contains `path`, and returns the path's last component.
  private mutating func enterParent(of path: [UInt8]) throws(PackageImportError) -> [UInt8] {
    let (directory, name) = split(path)
    try doing("Opening \(readable(directory))") { () throws(Errno) in try cursor.move(to: directory) }
    return name
  }

  private func split(_ path: [UInt8]) -> (directory: [UInt8], name: [UInt8]) {
    guard let slash = path.lastIndex(of: 0x2f) else { return ([], path) }
    return (Array(path[..<slash]), Array(path[(slash + 1)...]))
  }

  /// Runs a system call on a member's name in its directory; on failure, the error names the member.
  private func on(
    _ member: PaxMember, _ what: String, _ body: (UnsafePointer<CChar>) throws(Errno) -> Void
  ) throws(PackageImportError) {
    let name = split(member.path).name
    try doing("\(what) \(readable(member.path))") { () throws(Errno) in
      try name.withCName { (cName) throws(Errno) in try body(cName) }
    }
  }

  private mutating func makeFile(
    _ found: StreamScanner.Found, _ name: [UInt8], in directory: Directory
  ) throws(PackageImportError) {
    let member = found.member
    let file = try doing("Making \(readable(member.path))") { () throws(Errno) in
      Descriptor(
        adopting: try name.withCName { (name) throws(Errno) in
          try directory.open(name, O_CREAT | O_EXCL | O_WRONLY, mode: Self.newFile).release()
        })
    }
    let raw = file.rawValue
    sum = DataChecksum()
    summed = member.path
    if let sparse = member.sparse {
      try doing("Making \(readable(member.path))") { () throws(Errno) in try setSize(raw, member.size) }
      for segment in sparse.segments {
        try copy(found, from: segment.stored, segment.length, to: raw, at: segment.offset)
      }
    } else {
      try copy(found, from: 0, member.size, to: raw, at: 0)
    }
    try restore(member, raw)
  }

  private mutating func copy(
    _ found: StreamScanner.Found, from stored: Int64, _ length: Int64, to file: CInt, at offset: Int64
  ) throws(PackageImportError) {
    let (member, start) = (found.member, found.data + stored)
    var done: Int64 = 0
    while done < length {
      let part = UnsafeMutableRawBufferPointer(
        rebasing: buffer[..<Int(min(Int64(buffer.count), length - done))])
      let count = try doing("Reading the stream") { () throws(Errno) in
        try Interruption.check()
        return try readFully(stream, into: part, at: start + done)
      }
      guard count == part.count else { throw .damaged("The stream ends within \(readable(member.path)).") }
      if found.maySum { sum.add(UnsafeRawBufferPointer(part)) }
      try doing("Writing \(readable(member.path))") { () throws(Errno) in
        try writeFully(file, UnsafeRawBufferPointer(part), at: offset + done)
      }
      done += Int64(count)
    }
  }

  private func makeLink(_ member: PaxMember, _ name: [UInt8], in directory: Directory)
    throws(PackageImportError)
  {
    let (path, first) = split(member.target)
    let isFile = try doing("Linking \(readable(member.path))") { () throws(Errno) -> Bool in
      let opened = try package.openDeepDirectory(path)
      let source = Directory(descriptor: opened.rawValue)
      return try first.withCName { (first) throws(Errno) in
        guard FileType(mode: try source.status(first).st_mode) == .regular else { return false }
        try name.withCName { (name) throws(Errno) in try source.link(first, to: directory, name) }
        return true
      }
    }
    guard isFile else { throw .refused(member.path, "is a link to something that is not a file") }
  }

  // MARK: - Attributes

  /// Restores the metadata of an open file or directory. Changing the owner clears mode bits, and an access list sets some, so
  /// the mode is set after both. The time is set last.
  private func restore(_ member: PaxMember, _ raw: CInt) throws(PackageImportError) {
    let member = writers?.limiting(member) ?? member
    if owners == .recorded {
      try doing("Changing the owner of \(readable(member.path))") { () throws(Errno) in
        try setOwner(raw, member.owner, member.group)
      }
    }
    try restoreAttributes(member, ExtendedAttributes(of: raw))
    try doing("Setting the mode and time of \(readable(member.path))") { () throws(Errno) in
      try setPermissions(raw, mode(member))
      try setModified(raw, member.modified.timespec)
    }
  }

  /// The same for a member that is not opened: a symlink, which has no mode, or a FIFO.
  private func restoreNode(_ member: PaxMember, in directory: Directory) throws(PackageImportError) {
    let member = writers?.limiting(member) ?? member
    if owners == .recorded {
      try on(member, "Changing the owner of") { (name) throws(Errno) in
        try directory.setOwner(name, member.owner, member.group)
      }
    }
    if !member.attributes.isEmpty {
      let name = split(member.path).name.map { CChar(bitPattern: $0) } + [0]
      try restoreAttributes(member, ExtendedAttributes(of: name, in: directory))
    }
    try on(member, "Setting the mode and time of") { (name) throws(Errno) in
      if member.kind != .symlink { try directory.setPermissions(name, mode(member)) }
      try directory.setModified(name, member.modified.timespec)
    }
  }

  private func restoreAttributes(
    _ member: PaxMember, _ attributes: borrowing ExtendedAttributes
  ) throws(PackageImportError) {
    for attribute in member.attributes {
      do {
        try attribute.name.withCName { (name) throws(Errno) in
          let result: Result<Void, Errno> = attribute.value.withUnsafeBytes { value in
            do throws(Errno) { return .success(try attributes.set(name, value, flags: 0)) } catch {
              return .failure(error)
            }
          }
          try result.get()
        }
      } catch {
        throw .failed(error, "Setting the attribute \(readable(attribute.name)) of \(readable(member.path))")
      }
    }
  }

  private func mode(_ member: PaxMember) -> mode_t {
    owners == .client && member.kind == .regular ? member.mode & 0o1777 : member.mode
  }
}
