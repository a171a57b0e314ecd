import BackingTree
import Glibc
import SystemPackage

/// The pass over a package's metadata that collects the members of a layout.
///
/// The pass reads one directory after the other. A file that is moved meanwhile from a directory still to be read to one that was
/// read is found in neither. At its end the pass therefore compares each directory with its status from before it was read: if
/// none has changed, all of them were at one moment as the pass found them.
struct PackageWalk: ~Copyable {
  private var entries = EntryList()
  private(set) var names: ContiguousArray<UInt8> = []
  private(set) var extras: ContiguousArray<PackageLayout.Extra> = []
  private(set) var stamp = PackageStamp()
  /// Whether the pass read everything that a user with all permissions could read.
  private(set) var isComplete = true
  /// Whether the package has changed while it was walked.
  private(set) var hasChanged = false

  private let package: Directory
  private var cursor: TreeCursor
  /// The members of the directories from the top to `cursor`.
  private var chain: [Int32] = []
  private let working = WorkingDirectory()
  /// Whether the directory at `cursor` is the thread's working directory.
  private var isWorking: Bool
  /// Entries of the package's own directory that are not part of the package.
  private let omitted: Set<[UInt8]>
  /// The first member of each file with several hard links, by identity.
  private var firstNames: [FileIdentity: Int32] = [:]
  /// A hash of the names in each directory that had changed shortly before, by member; -1 for the package's own directory. The next
  /// change of such a directory may get the same timestamp.
  private var recentNames: [Int32: Int] = [:]

  /// What `extras` take besides their fields, in bytes.
  private var extraMemory = 0
  /// The most memory that the members may take, in bytes.
  private let memory: Int

  /// An entry whose status was read and which is not yet appended to the members.
  private struct Pending {
    let entry: PackageLayout.Entry
    let hasMoreNames: Bool
    /// Whether it has fewer blocks than its size needs.
    let hasHoles: Bool
  }

  /// The entries still to be appended, the next one last.
  private var stack: [Pending] = []

  private init(package: Directory, omitting omitted: Set<[UInt8]>, memory: Int) throws(Errno) {
    self.package = package
    cursor = try TreeCursor(package)
    isWorking = working.move(to: cursor.directory)
    self.omitted = omitted
    self.memory = memory
  }

  static let mostAttempts = 3

  /// Walks a package; again where it changes meanwhile. The last attempt may have changed (`hasChanged`).
  ///
  /// - Parameters:
  ///   - attempts: how often at most.
  ///   - memory: the most memory that the members may take, in bytes.
  /// - Throws: EIO when a directory is moved during the last attempt; ENOMEM when the members take too much memory; EOVERFLOW when
  ///   one has more than 1 MiB of attributes; the errno of the calls.
  static func finished(
    in package: Directory, omitting omitted: Set<[UInt8]>, attempts: Int = mostAttempts,
    memory: Int = PackageLayout.mostMemory
  ) throws(Errno) -> PackageWalk {
    var attempt = 1
    while true {
      do throws(Errno) {
        var walk = try PackageWalk(package: package, omitting: omitted, memory: memory)
        try walk.run()
        if !walk.hasChanged || attempt >= attempts { return walk }
      } catch {
        guard error == .ioError, attempt < attempts else { throw error }
      }
      attempt += 1
    }
  }

  /// Walks depth first with an explicit stack: neither the call stack nor the number of descriptors grows with the depth, and the
  /// cost of a directory does not depend on its depth.
  private mutating func run() throws(Errno) {
    let top = try inspect("", in: package, name: 0..<0, parent: -1)
    try list(top.entry, index: -1)
    while let pending = stack.popLast() {
      let index = Int32(try append(pending))
      guard FileType(mode: pending.entry.mode) == .directory else { continue }
      try move(to: index)
      try list(pending.entry, index: index)
    }
    _ = try append(top)
    if hasChanged { return }
    do throws(Errno) { try checkUnchanged() } catch {
      guard error == .ioError else { throw error }
      hasChanged = true
    }
  }

  /// Moves the cursor to a directory; -1 is the package's own. The cursor must be at its parent, or at or below a directory there.
  private mutating func move(to directory: Int32) throws(Errno) {
    guard directory != chain.last ?? -1 else { return }
    let parent = directory < 0 ? -1 : entries[Int(directory)].parent
    while let last = chain.last, last != directory, last != parent {
      chain.removeLast()
      try cursor.leave()
    }
    if directory != chain.last ?? -1 {
      let name = name(of: entries[Int(directory)])
      do throws(Errno) {
        try name.withCName { (name) throws(Errno) in try cursor.enter(name) }
      } catch { throw error.afterListing }
      chain.append(directory)
    }
    isWorking = working.move(to: cursor.directory)
  }

  private func name(of entry: PackageLayout.Entry) -> ContiguousArray<UInt8>.SubSequence {
    names[entry.nameStart..<(entry.nameStart + Int(entry.nameLength))]
  }

  /// Checks that nothing has changed since the pass read its status which no read of the stream checks: directories, and whatever
  /// has no data.
  ///
  /// Costs one `statx` for each. The directories that have such an entry are opened once more.
  ///
  /// - Throws: EIO.
  private mutating func checkUnchanged() throws(Errno) {
    for index in entries.indices {
      let entry = entries[index]
      guard entry.link < 0, PackageLayout.dataLength(entry, extras) == 0 else { continue }
      try Interruption.check()
      try move(to: entry.parent)
      let directory = cursor.directory
      do throws(Errno) {
        let status = try name(of: entry).withCName { (name) throws(Errno) in try directory.latestStatus(name)
        }
        guard entry.matches(status) else { throw .ioError }
      } catch { throw error.afterListing }
      let member = entry.nameLength == 0 ? -1 : Int32(index)
      guard let found = recentNames[member] else { continue }
      try move(to: member)
      var hash = 0
      try forEachPart { (entry) throws(Errno) in hash &+= Self.hash(entry.name) }
      guard hash == found else { throw .ioError }
    }
  }

  private static func hash(_ name: UnsafeBufferPointer<UInt8>) -> Int {
    var hasher = Hasher()
    hasher.combine(bytes: UnsafeRawBufferPointer(name))
    return hasher.finalize()
  }

  /// Moves the members out, so that they are changed in place and not copied.
  mutating func takeEntries() -> EntryList {
    var taken = EntryList()
    swap(&taken, &entries)
    return taken
  }

  /// Pushes the entries of the directory at `cursor` onto the stack, the first in byte order on top.
  private mutating func list(_ entry: PackageLayout.Entry, index: Int32) throws(Errno) {
    // A longer path than a member may have: fail now and not after a possibly endless walk.
    guard cursor.path.count <= PaxMember.longestPath else { throw Errno.overflow }
    guard entry.identity == cursor.identity else { throw Errno.ioError }
    let directory = cursor.directory
    // Each name is followed by a NUL.
    var listing: ContiguousArray<UInt8> = []
    var starts: [Int] = []
    var hash = 0
    let isRecent = !stamp.isSettled(entry.changed)
    try forEachPart { (entry) throws(Errno) in
      starts.append(listing.count)
      listing.append(
        contentsOf: UnsafeBufferPointer(start: entry.name.baseAddress!, count: entry.name.count + 1))
      try checkMemory(listed: starts.count, names: listing.count)
      if isRecent { hash &+= Self.hash(entry.name) }
    }
    if isRecent { recentNames[index] = hash }
    guard !starts.isEmpty else { return }
    var failure: Errno?
    listing.withUnsafeBytes { listing in
      let base = listing.baseAddress!.assumingMemoryBound(to: CChar.self)
      // strcmp compares unsigned bytes.
      starts.sort { strcmp(base + $0, base + $1) > 0 }
      do throws(Errno) {
        for start in starts {
          try inspect(base + start, in: directory, parent: index)
        }
      } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// Reads the directory at `cursor`.
  private func forEachPart(_ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void) throws(Errno) {
    let isTop = cursor.depth == 0
    try forEachEntry(of: cursor.directory.descriptor) { (entry) throws(Errno) in
      if isTop, !omitted.isEmpty, omitted.contains(Array(entry.name)) { return }
      try body(entry)
    }
  }

  /// Reads an entry's status and pushes the entry onto the stack.
  private mutating func inspect(
    _ name: UnsafePointer<CChar>, in directory: Directory, parent: Int32
  ) throws(Errno) {
    try Interruption.check()
    let start = names.count
    names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: strlen(name)))
    do throws(Errno) {
      let found = try inspect(name, in: directory, name: start..<names.count, parent: parent)
      if FileType(mode: found.entry.mode) != .socket { stack.append(found) }
    } catch {
      guard error == .noSuchFileOrDirectory else { throw error }
      hasChanged = true
    }
  }

  private mutating func inspect(
    _ name: UnsafePointer<CChar>, in directory: Directory, name range: Range<Int>, parent: Int32
  ) throws(Errno) -> Pending {
    let status = try directory.status(name)
    stamp.add(status)
    let isRegular = FileType(mode: status.st_mode) == .regular
    return Pending(
      entry: PackageLayout.Entry(status, parent: parent, name: range),
      hasMoreNames: isRegular && status.st_nlink > 1,
      hasHoles: isRegular && Int64(status.st_blocks) < Int64(status.st_size) / 512)
  }

  /// Reads an entry's remaining metadata and appends the entry to the members. Not read for the entries of a directory that are
  /// still on the stack, nor for further names of a file: the file system may keep once what would take memory for each.
  private mutating func append(_ pending: Pending) throws(Errno) -> Int {
    var entry = pending.entry
    let index = entries.count
    guard index < Int32.max else { throw Errno.overflow }
    if pending.hasMoreNames, let first = firstNames[entry.identity] {
      // The link's metadata is that of the first name, if the file did not change between the two reads.
      guard entries[Int(first)].changed == entry.changed else { throw Errno.ioError }
      entry.link = first
    } else {
      if pending.hasMoreNames { firstNames[entry.identity] = Int32(index) }
      try move(to: entry.parent)
      let directory = cursor.directory
      let extra: PackageLayout.Extra
      do throws(Errno) {
        extra = try name(of: entry).withCName { (name) throws(Errno) in
          try self.extra(of: pending, name, in: directory)
        }
      } catch { throw error.afterListing }
      if !extra.isEmpty {
        entry.extra = Int32(extras.count)
        extras.append(extra)
        extraMemory += extra.memorySize
        try checkMemory()
      }
    }
    entries.append(entry)
    return index
  }

  /// - Parameters:
  ///   - listed: the number of entries that are not yet on the stack.
  ///   - count: the number of bytes of their names.
  private func checkMemory(listed: Int = 0, names count: Int = 0) throws(Errno) {
    let members = (entries.count + stack.count + listed) * MemoryLayout<PackageLayout.Entry>.stride
    let extras = extras.count * MemoryLayout<PackageLayout.Extra>.stride + extraMemory
    guard members + extras + names.count + count <= memory else { throw .noMemory }
  }

  private mutating func extra(
    of pending: Pending, _ name: UnsafePointer<CChar>, in directory: Directory
  ) throws(Errno) -> PackageLayout.Extra {
    var extra = PackageLayout.Extra()
    // A symlink cannot have attributes of the kinds that a stream includes. (xattr(7))
    if FileType(mode: pending.entry.mode) == .symlink {
      do throws(Errno) { extra.target = try directory.symlinkTarget(name) } catch {
        // It is no symlink any more.
        throw error == .invalidArgument ? .ioError : error
      }
      return extra
    }
    if pending.entry.nameLength == 0 {
      extra.attributes = try Self.attributes(ExtendedAttributes(of: package.descriptor))
    } else if !isWorking {
      extra.attributes = try Self.attributes(ExtendedAttributes(of: name, in: directory))
    } else if try ExtendedAttributes.exist(inWorkingDirectory: name) {
      extra.attributes = try Self.attributes(ExtendedAttributes(inWorkingDirectory: name))
    }
    if pending.hasHoles { extra.sparse = try sparse(name, in: directory, pending.entry) }
    return extra
  }

  /// - Throws: EOVERFLOW when they are longer than the header of a member may be.
  private static func attributes(
    _ attributes: consuming ExtendedAttributes
  ) throws(Errno) -> [PaxMember.Attribute] {
    var found: [PaxMember.Attribute] = []
    var size = 0
    for name in try attributes.namesIfAny() where CarriedAttributes.contains(name) {
      let value = try name.withCName { (cName) throws(Errno) in try attributes.wholeValue(cName) }
      guard let value else { continue }
      size += name.count + value.count
      guard size <= PaxMember.longestRecords else { throw .overflow }
      found.append(PaxMember.Attribute(name: name, value: value))
    }
    found.sort { $0.name.lexicographicallyPrecedes($1.name) }
    return found
  }

  /// The data ranges of a file with holes; nil if all are too small.
  ///
  /// A file that cannot be opened is treated as one without holes: the error is reported when its data is read.
  private mutating func sparse(
    _ name: UnsafePointer<CChar>, in directory: Directory, _ entry: PackageLayout.Entry
  ) throws(Errno) -> SparseMap? {
    let size = entry.size
    let smallest = SparseMap.smallestHole(size: size)
    guard size >= smallest else { return nil }
    let file: RegularFile
    do { file = try directory.openRegular(name, O_RDONLY) } catch {
      isComplete = false
      return nil
    }
    let ranges: [Range<Int64>]
    do {
      ranges = try dataRanges(file.descriptor.rawValue, size: size, smallestHole: smallest)
    } catch {
      // No SEEK_DATA on this file system.
      if error == .invalidArgument || error == .notSupported { return nil }
      throw error
    }
    guard entry.matches(try fileStatus(file.descriptor.rawValue)) else { throw Errno.ioError }
    return SparseMap(ranges: ranges, size: size)
  }
}
