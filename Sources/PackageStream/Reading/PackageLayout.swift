import BackingTree
import Glibc
import SystemPackage

/// Maps each offset of a package's stream to its content, without reading any file's data.
///
/// The stream is a POSIX pax archive of the package's directory: a global header that names its type, the members, and two zero
/// blocks. Members come depth first, the entries of each directory sorted by their bytes. Their paths begin with `./`, and the
/// last member is `./`, the package's own directory. `tar -xf` therefore restores the package into the target directory, with the
/// package's mode and time (libarchive sets the time of an existing directory when it reads that member, and every later member
/// would change it again).
///
/// Members have permission bits, numeric owner and group, modification time to the nanosecond, symlink targets, `user.`
/// attributes and POSIX access lists. Further names of a regular file are hard links to its first name. Large holes are left out.
/// FIFOs and devices are members. Sockets are not, because no archive format supports them, and attributes of other namespaces
/// are not, because only some clients see them. The same package gives the same bytes.
///
/// No part of the stream depends on data outside that part. With a checksum of a file's data, a read of the part after a large
/// file would have to read that whole file (`stat` of other users took 23 s with eleven such reads of 2 GB).
///
/// A member takes about 120 bytes of memory plus its name; heads are generated when they are read. Only the `beginning` of a
/// layout is cached for longer.
public final class PackageLayout: Sendable {
  /// The stream's length in bytes, a multiple of 512.
  public let size: Int64
  /// The newest modification time of any part, the directory itself included.
  public let newestModification: timespec
  /// The state of the package; see `PackageStamp`.
  public let stamp: PackageStamp
  /// Whether the layout equals the one for a user with all permissions: false when a file with holes could not be opened.
  public let isComplete: Bool
  /// Whether the package was at one moment as the layout has it.
  public let isConsistent: Bool
  /// The number of members that this layout covers, including the package's own directory.
  public var memberCount: Int { entries.count }
  /// The memory that the layout takes, in bytes, approximately.
  public var memorySize: Int {
    let entries = entries.count * MemoryLayout<Entry>.stride
    return extras.reduce(entries + names.count) { $0 + MemoryLayout<Extra>.stride + $1.memorySize }
  }
  /// The most memory that a layout may take, in bytes: that of four million members.
  public static let mostMemory = 512 << 20
  /// The type identifier that the stream's header names.
  public let type: String

  let start: [UInt8]
  let entries: EntryList
  private let names: ContiguousArray<UInt8>
  private let extras: ContiguousArray<Extra>

  /// A member, with the file's state by which a later change is detected.
  struct Entry {
    /// The offset of the head in the stream.
    var offset: Int64 = 0
    let identity: FileIdentity
    let size: Int64
    let device: UInt64
    let modified: FileTime
    let changed: FileTime
    var nameStart: Int
    /// The member of the directory that contains this one; -1 for the package's own directory and its direct entries.
    let parent: Int32
    let mode: UInt32
    let owner: UInt32
    let group: UInt32
    var headLength: UInt32 = 0
    /// The member that this one is a hard link to; -1 if it is none.
    var link: Int32 = -1
    /// The index into `extras`; -1 if there is none.
    var extra: Int32 = -1
    let nameLength: UInt16

    init(_ status: stat, parent: Int32, name: Range<Int>) {
      identity = FileIdentity(status)
      size = Self.size(status)
      device = UInt64(status.st_rdev)
      modified = FileTime(status.st_mtim)
      changed = FileTime(status.st_ctim)
      mode = status.st_mode
      owner = status.st_uid
      group = status.st_gid
      self.parent = parent
      nameStart = name.lowerBound
      nameLength = UInt16(truncatingIfNeeded: name.count)
    }

    /// The size of the data: 0 for everything but regular files.
    private static func size(_ status: stat) -> Int64 {
      status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : 0
    }

    /// Whether `status` is that of the file that this entry was made from, unchanged.
    func matches(_ status: stat) -> Bool {
      identity == FileIdentity(status) && mode == status.st_mode && size == Self.size(status)
        && modified == FileTime(status.st_mtim) && changed == FileTime(status.st_ctim)
    }
  }

  /// Properties that few members have.
  struct Extra {
    var target: [UInt8] = []
    var attributes: [PaxMember.Attribute] = []
    var sparse: SparseMap?
    var isEmpty: Bool { target.isEmpty && attributes.isEmpty && sparse == nil }

    /// What it takes besides its fields, in bytes.
    var memorySize: Int {
      let values = attributes.reduce(0) { $0 + $1.name.count + $1.value.count }
      let map = sparse.map { $0.text.count + $0.segments.count * MemoryLayout<SparseMap.Segment>.stride }
      return target.count + attributes.count * MemoryLayout<PaxMember.Attribute>.stride + values + (map ?? 0)
    }
  }

  /// Reads the metadata of every part of a package.
  ///
  /// Costs one getdents64 pass per directory and, per entry, one `fstatat` and, per file, one `llistxattr`. Files with holes are
  /// opened to find the holes. The number of open descriptors does not grow with the package. Symlinks are not followed. Parts are
  /// read one after the other, so the pass ends with a check that no directory has changed since it was read; if one has, it begins
  /// anew.
  ///
  /// - Parameters:
  ///   - package: the package's directory; the caller needs read permission on it and everything in it.
  ///   - type: the uniform type identifier that the stream's header names.
  ///   - omitted: entries of the package's own directory that are left out.
  ///   - mayChange: whether the layout of one pass will do, though the package changed meanwhile, as for a size.
  /// - Throws: EINVAL when `type` is not a valid identifier; EIO when the package changes during each of three passes; ENOMEM
  ///   when the layout would take more than `mostMemory`; EOVERFLOW when a part has more than 1 MiB of attributes and names or
  ///   the stream is longer than a file can be; and the errno of the calls.
  public convenience init(
    of package: Directory, type: String, omitting omitted: Set<[UInt8]> = [], mayChange: Bool = false
  ) throws(Errno) {
    guard let start = GlobalHeader.bytes(type: type) else { throw Errno.invalidArgument }
    let attempts = mayChange ? 1 : PackageWalk.mostAttempts
    try self.init(
      try PackageWalk.finished(in: package, omitting: omitted, attempts: attempts), start: start, type: type)
    guard isConsistent || mayChange else { throw .ioError }
  }

  private init(_ walk: consuming PackageWalk, start: [UInt8], type: String) throws(Errno) {
    self.start = start
    self.type = type
    let names = walk.names
    let extras = walk.extras
    self.names = names
    self.extras = extras
    stamp = walk.stamp
    isComplete = walk.isComplete
    isConsistent = !walk.hasChanged
    var walk = walk
    var entries = walk.takeEntries()
    var newest = FileTime.distantPast
    var end = Int64(start.count)
    var paths = ContiguousArray<PathShape>()
    paths.reserveCapacity(entries.count)
    for index in entries.indices {
      entries[index].offset = end
      let entry = entries[index]
      let path = PathShape(
        below: entry.parent < 0 ? nil : paths[Int(entry.parent)],
        names[entry.nameStart..<(entry.nameStart + Int(entry.nameLength))])
      paths.append(path)
      let head = Self.plainHeadLength(entry, path)
      if let head { assert(head == Self.headLength(index, entries, extras, names, paths)) }
      guard let head = head ?? Self.headLength(index, entries, extras, names, paths) else {
        throw Errno.overflow
      }
      entries[index].headLength = UInt32(head)
      let length = Self.dataLength(entry, extras)
      let (data, overflow) = length.addingReportingOverflow(padding(length) + head)
      let (next, carry) = end.addingReportingOverflow(data)
      // `next` plus padding to whole blocks and the two zero blocks must not overflow.
      guard !overflow, !carry, next <= Int64.max - 4096 else { throw Errno.overflow }
      end = next
      newest = max(newest, entries[index].modified)
    }
    self.entries = entries
    newestModification = newest.timespec
    trailerOffset = end
    size = end + 1024
    knownEnd = size
  }

  /// The offset of the two zero blocks.
  let trailerOffset: Int64
  /// The end of the part of the stream that this layout covers: `size`, or less for a `beginning`.
  private let knownEnd: Int64

  // MARK: - The beginning

  /// The layout of the first `length` bytes of the stream, or of fewer when the head of one member alone is longer: extended
  /// attributes may take up 1 MiB. Its memory is bounded by `length`, whatever the package holds.
  public func beginning(_ length: Int) -> PackageLayout {
    let count =
      entries.firstIndex { $0.offset >= Int64(length) || Int($0.headLength) > length } ?? entries.count
    return PackageLayout(beginningOf: self, members: count)
  }

  /// Directories precede their entries, and the first name of a file precedes its hard links, so a prefix of the members refers
  /// to no later member.
  private init(beginningOf layout: PackageLayout, members count: Int) {
    size = layout.size
    newestModification = layout.newestModification
    stamp = layout.stamp
    isComplete = layout.isComplete
    isConsistent = layout.isConsistent
    type = layout.type
    start = layout.start
    trailerOffset = layout.trailerOffset
    knownEnd = count < layout.entries.count ? layout.entries[count].offset : layout.size
    var entries = EntryList()
    var names: ContiguousArray<UInt8> = []
    var extras: ContiguousArray<Extra> = []
    for var entry in layout.entries[..<count] {
      let name = layout.names[entry.nameStart..<(entry.nameStart + Int(entry.nameLength))]
      entry.nameStart = names.count
      names.append(contentsOf: name)
      if entry.extra >= 0 {
        extras.append(layout.extras[Int(entry.extra)])
        entry.extra = Int32(extras.count - 1)
      }
      entries.append(entry)
    }
    self.entries = entries
    self.names = names
    self.extras = extras
  }

  /// Whether this layout covers a read of `count` bytes at `offset`.
  public func covers(_ count: Int, at offset: Int64) -> Bool {
    offset >= 0 && (knownEnd == size || offset <= knownEnd - Int64(count))
  }

  // MARK: - Looking up

  /// The member with the byte at `offset` in its head or data, by binary search. `offset` must not be before the first member.
  func member(at offset: Int64) -> Int { entries.lastIndexOfPrefix { $0.offset <= offset } }

  func sparse(_ index: Int) -> SparseMap? {
    let extra = entries[index].extra
    return extra < 0 ? nil : extras[Int(extra)].sparse
  }

  /// The number of bytes of data of a member in the stream, without padding.
  func dataLength(_ index: Int) -> Int64 { Self.dataLength(entries[index], extras) }

  static func dataLength(_ entry: Entry, _ extras: ContiguousArray<Extra>) -> Int64 {
    if entry.link >= 0 { return 0 }
    return entry.extra < 0 ? entry.size : extras[Int(entry.extra)].sparse?.dataLength ?? entry.size
  }

  /// The head of a member.
  func head(_ index: Int) -> [UInt8] {
    let link = entries[index].link
    return Self.member(
      index, entries, extras, path: path(index), target: link < 0 ? nil : path(Int(link))
    ).head()
  }

  /// The path of a member relative to the package.
  func path(_ index: Int) -> [UInt8] { Self.path(index, entries, names) }

  static func path(
    _ index: Int, _ entries: EntryList, _ names: ContiguousArray<UInt8>
  ) -> [UInt8] {
    var chain: [Int] = []
    var index = index
    while index >= 0 {
      chain.append(index)
      index = Int(entries[index].parent)
    }
    var path: [UInt8] = []
    for index in chain.reversed() {
      if !path.isEmpty { path.append(0x2f) }
      let start = entries[index].nameStart
      path.append(contentsOf: names[start..<(start + Int(entries[index].nameLength))])
    }
    return path
  }

  /// The properties of a path that determine the length of a head. Derived from the parent's in constant time, so the depth of a
  /// directory does not matter.
  private struct PathShape {
    let length: Int
    let isASCII: Bool
    private let isText: Bool

    init(below parent: PathShape?, _ name: ContiguousArray<UInt8>.SubSequence) {
      length = (parent.map { $0.length + 1 } ?? 0) + name.count
      let isASCII = name.allSatisfy { $0 < 0x80 }
      self.isASCII = parent?.isASCII ?? true && isASCII
      isText = parent?.isText ?? true && (isASCII || isUTF8(Array(name)))
    }

    /// A shorter path with the same encoding; nil if the path has at most 512 bytes.
    var standIn: [UInt8]? {
      length > 512 ? [UInt8](repeating: isText ? 0x61 : 0xff, count: 512) : nil
    }
  }

  /// The length of a member's head; nil when it exceeds the limits of `PaxMember`.
  private static func headLength(
    _ index: Int, _ entries: EntryList, _ extras: ContiguousArray<Extra>,
    _ names: ContiguousArray<UInt8>, _ paths: ContiguousArray<PathShape>
  ) -> Int64? {
    let path = paths[index]
    let link = Int(entries[index].link)
    let first = link < 0 ? nil : paths[link]
    let member = member(
      index, entries, extras, path: path.standIn ?? Self.path(index, entries, names),
      target: first.map { $0.standIn ?? Self.path(link, entries, names) })
    return member.headLength(path: path.length, target: first?.length)
  }

  /// The same for a member that needs no extended header, or one for its modification time only, as most members do; nil for all
  /// other members. Generating the extended header, which takes as long as a system call, is avoided.
  private static func plainHeadLength(_ entry: Entry, _ path: PathShape) -> Int64? {
    guard entry.link < 0, entry.extra < 0, path.isASCII,
      UstarHeader.fitsPlain(pathLength: path.length, size: entry.size, owner: entry.owner, group: entry.group)
    else { return nil }
    // An extended header with only a time has a ustar header and one block of records.
    return UstarHeader.fits(entry.modified) ? 512 : 3 * 512
  }

  /// - Parameter target: for a hard link, the path of the file's first name; nil for every other member.
  private static func member(
    _ index: Int, _ entries: EntryList, _ extras: ContiguousArray<Extra>, path: [UInt8],
    target: [UInt8]?
  ) -> PaxMember {
    let entry = entries[index]
    var member = PaxMember(
      path: path, kind: PaxMember.Kind(mode: entry.mode), mode: entry.mode & 0o7777,
      owner: entry.owner, group: entry.group, modified: entry.modified)
    if let target {
      member.kind = .hardLink
      member.target = target
      return member
    }
    if entry.extra >= 0 {
      let extra = extras[Int(entry.extra)]
      member.target = extra.target
      member.attributes = extra.attributes
      member.sparse = extra.sparse
    }
    switch member.kind {
    case .regular:
      member.size = entry.size
    case .characterDevice, .blockDevice:
      // The kernel's huge encoding of a device number, split like in glibc's <sys/sysmacros.h>.
      member.deviceMajor = UInt32(
        truncatingIfNeeded: entry.device >> 8 & 0xfff | entry.device >> 32 & 0xffff_f000)
      member.deviceMinor = UInt32(truncatingIfNeeded: entry.device & 0xff | entry.device >> 12 & 0xffff_ff00)
    default:
      break
    }
    return member
  }
}

extension PaxMember.Kind {
  /// The kind of a file with these type bits. Must not be called for sockets, which have no kind.
  init(mode: UInt32) {
    switch FileType(mode: mode) {
    case .directory: self = .directory
    case .symlink: self = .symlink
    case .fifo: self = .fifo
    case .characterDevice: self = .characterDevice
    case .blockDevice: self = .blockDevice
    case .regular, .socket, .unknown: self = .regular
    }
  }
}
