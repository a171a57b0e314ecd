import BackingTree
import Glibc
import SystemPackage

/// The pass over a package's metadata that collects the members of a layout.
struct PackageWalk: ~Copyable {
  private var entries = EntryList()
  private(set) var names: ContiguousArray<UInt8> = []
  private(set) var extras: ContiguousArray<PackageLayout.Extra> = []
  private(set) var stamp = PackageStamp()
  /// Whether the pass read everything that a user with all permissions could read.
  private(set) var isComplete = true

  private let package: Directory
  private var cursor: TreeCursor
  private let working = WorkingDirectory()
  /// Entries of the package's own directory that are not part of the package.
  private let omitted: Set<[UInt8]>
  /// The first member of each file with several hard links, by identity.
  private var firstNames: [FileIdentity: Int32] = [:]

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

  /// Walks depth first with an explicit stack: neither the call stack nor the number of descriptors grows with the depth, and the
  /// cost of a directory does not depend on its depth.
  mutating func run() throws(Errno) {
    let top = try inspect("", in: package, isWorking: false, name: 0..<0, parent: -1)
    var stack: [Pending] = []
    // The members of the directories from the top to `cursor`.
    var chain: [Int32] = []
    try list(top.entry, index: -1, onto: &stack)
    while let pending = stack.popLast() {
      let index = try append(pending)
      guard FileType(mode: pending.entry.mode) == .directory else { continue }
      while let last = chain.last, last != pending.entry.parent {
        chain.removeLast()
        try cursor.leave()
      }
      let name = pending.entry.nameStart..<(pending.entry.nameStart + Int(pending.entry.nameLength))
      do throws(Errno) {
        try names[name].withCName { (name) throws(Errno) in try cursor.enter(name) }
      } catch { throw error.afterListing }
      chain.append(Int32(index))
      try list(pending.entry, index: Int32(index), onto: &stack)
    }
    _ = try append(top)
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
    let isTop = cursor.depth == 0
    // Each name is followed by a NUL.
    var listing: ContiguousArray<UInt8> = []
    var starts: [Int] = []
    try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
      if isTop, !omitted.isEmpty, omitted.contains(Array(entry.name)) { return }
      starts.append(listing.count)
      listing.append(
        contentsOf: UnsafeBufferPointer(start: entry.name.baseAddress!, count: entry.name.count + 1))
    }
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
    } catch {
      // Deleted since its name was read, so no longer part of the package.
      if error != .noSuchFileOrDirectory { throw error }
    }
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
