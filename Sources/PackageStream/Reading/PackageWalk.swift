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

  private let package: Directory
  private var cursor: TreeCursor
  /// The members of the directories from the top to `cursor`.
  private var chain: [Int32] = []
  private let working = WorkingDirectory()
  /// Entries of the package's own directory that are not part of the package.
  private let omitted: Set<[UInt8]>
  /// The first member of each file with several hard links, by identity.
  private var firstNames: [FileIdentity: Int32] = [:]
  /// A hash of the names in each directory that had changed shortly before, by member; -1 for the package's own directory. The next
  /// change of such a directory may get the same timestamp.
  private var recentNames: [Int32: Int] = [:]

  /// An entry whose status was read and which is not yet appended to the members.
  private struct Pending {
    let entry: PackageLayout.Entry
    let extra: PackageLayout.Extra?
    let hasMoreNames: Bool
  }

  init(package: Directory, omitting omitted: Set<[UInt8]>) throws(Errno) {
    self.package = package
    cursor = try TreeCursor(package)
    self.omitted = omitted
  }

  private static let mostAttempts = 3

  /// Walks a package; again where it changes meanwhile.
  ///
  /// - Throws: EIO when it changes during each attempt; the errno of the calls.
  static func finished(in package: Directory, omitting omitted: Set<[UInt8]>) throws(Errno) -> PackageWalk {
    var attempt = 1
    while true {
      do throws(Errno) {
        var walk = try PackageWalk(package: package, omitting: omitted)
        try walk.run()
        return walk
      } catch {
        guard error == .ioError, attempt < mostAttempts else { throw error }
        attempt += 1
      }
    }
  }

  /// Walks depth first with an explicit stack: neither the call stack nor the number of descriptors grows with the depth, and the
  /// cost of a directory does not depend on its depth.
  private mutating func run() throws(Errno) {
    let top = try inspect("", in: package, isWorking: false, name: 0..<0, parent: -1)
    var stack: [Pending] = []
    try list(top.entry, index: -1, onto: &stack)
    while let pending = stack.popLast() {
      let index = Int32(try append(pending))
      guard FileType(mode: pending.entry.mode) == .directory else { continue }
      try move(to: index)
      try list(pending.entry, index: index, onto: &stack)
    }
    _ = try append(top)
    try checkUnchanged()
  }

  /// Moves the cursor to a directory; -1 is the package's own. The cursor must be at its parent, or at or below a directory there.
  private mutating func move(to directory: Int32) throws(Errno) {
    let parent = directory < 0 ? -1 : entries[Int(directory)].parent
    while let last = chain.last, last != directory, last != parent {
      chain.removeLast()
      try cursor.leave()
    }
    guard directory != chain.last ?? -1 else { return }
    let name = name(of: entries[Int(directory)])
    do throws(Errno) {
      try name.withCName { (name) throws(Errno) in try cursor.enter(name) }
    } catch { throw error.afterListing }
    chain.append(directory)
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
  private mutating func list(
    _ entry: PackageLayout.Entry, index: Int32, onto stack: inout [Pending]
  ) throws(Errno) {
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
      if isRecent { hash &+= Self.hash(entry.name) }
    }
    if isRecent { recentNames[index] = hash }
    guard !starts.isEmpty else { return }
    let isWorking = working.move(to: directory)
    var failure: Errno?
    listing.withUnsafeBytes { listing in
      let base = listing.baseAddress!.assumingMemoryBound(to: CChar.self)
      // strcmp compares unsigned bytes.
      starts.sort { strcmp(base + $0, base + $1) > 0 }
      do throws(Errno) {
        for start in starts {
          try inspect(base + start, in: directory, isWorking: isWorking, parent: index, onto: &stack)
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

  /// Reads an entry's metadata and pushes the entry onto the stack.
  private mutating func inspect(
    _ name: UnsafePointer<CChar>, in directory: Directory, isWorking: Bool, parent: Int32,
    onto stack: inout [Pending]
  ) throws(Errno) {
    try Interruption.check()
    let start = names.count
    names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: strlen(name)))
    do throws(Errno) {
      let found = try inspect(
        name, in: directory, isWorking: isWorking, name: start..<names.count, parent: parent)
      if FileType(mode: found.entry.mode) != .socket { stack.append(found) }
    } catch { throw error.afterListing }
  }

  private mutating func append(_ pending: Pending) throws(Errno) -> Int {
    let index = entries.count
    guard index < Int32.max else { throw Errno.overflow }
    entries.append(pending.entry)
    if pending.hasMoreNames {
      if let first = firstNames[pending.entry.identity] {
        // The link's metadata is that of the first name, if the file did not change between the two reads.
        guard entries[Int(first)].changed == pending.entry.changed else { throw Errno.ioError }
        entries[index].link = first
        return index
      }
      firstNames[pending.entry.identity] = Int32(index)
    }
    if let extra = pending.extra {
      entries[index].extra = Int32(extras.count)
      extras.append(extra)
    }
    return index
  }

  private mutating func inspect(
    _ name: UnsafePointer<CChar>, in directory: Directory, isWorking: Bool, name range: Range<Int>,
    parent: Int32
  ) throws(Errno) -> Pending {
    let status = try directory.status(name)
    stamp.add(status)
    let entry = PackageLayout.Entry(status, parent: parent, name: range)
    let type = FileType(mode: status.st_mode)
    var extra: PackageLayout.Extra?
    if type == .symlink {
      // A symlink cannot have attributes of the kinds that a stream includes. (xattr(7))
      extra = PackageLayout.Extra(target: try directory.symlinkTarget(name))
    } else if range.isEmpty {
      extra = PackageLayout.Extra(
        attributes: try Self.attributes(ExtendedAttributes(of: directory.descriptor)))
    } else if !isWorking {
      extra = PackageLayout.Extra(
        attributes: try Self.attributes(ExtendedAttributes(of: name, in: directory)))
    } else if try ExtendedAttributes.exist(inWorkingDirectory: name) {
      extra = PackageLayout.Extra(
        attributes: try Self.attributes(ExtendedAttributes(inWorkingDirectory: name)))
    }
    if type == .regular, let sparse = try sparse(name, in: directory, status, entry) {
      extra = PackageLayout.Extra(attributes: extra?.attributes ?? [], sparse: sparse)
    }
    if extra?.isEmpty == true { extra = nil }
    return Pending(entry: entry, extra: extra, hasMoreNames: type == .regular && status.st_nlink > 1)
  }

  private static func attributes(_ attributes: consuming ExtendedAttributes) throws(Errno) -> [PaxMember
    .Attribute]
  {
    var found: [PaxMember.Attribute] = []
    for name in try attributes.namesIfAny() where CarriedAttributes.contains(name) {
      let value = try name.withCName { (cName) throws(Errno) in try attributes.wholeValue(cName) }
      if let value { found.append(PaxMember.Attribute(name: name, value: value)) }
    }
    found.sort { $0.name.lexicographicallyPrecedes($1.name) }
    return found
  }

  /// The data ranges of a file that has fewer blocks than its size needs.
  ///
  /// A file that cannot be opened is treated as one without holes: the error is reported when its data is read.
  private mutating func sparse(
    _ name: UnsafePointer<CChar>, in directory: Directory, _ status: stat, _ entry: PackageLayout.Entry
  ) throws(Errno) -> SparseMap? {
    let size = Int64(status.st_size)
    let smallest = SparseMap.smallestHole(size: size)
    guard size >= smallest, Int64(status.st_blocks) < size / 512 else { return nil }
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
