import BackingTree
import Glibc
import SystemPackage

/// Which bytes a package's stream has at which offset, known without reading any file's data.
///
/// The stream is a POSIX pax archive of the package's directory: a global header that names its type, the members,
/// and two zero blocks. Members come depth first, the entries of each directory sorted by their bytes. Their paths
/// begin with `./`, and the last member is `./`, the package's own directory: so `tar -xf` restores the package into
/// the directory it is told, with that directory's mode and time (libarchive sets the time of a directory that exists
/// when it meets it, and every member after that would change it again).
///
/// Members carry permission bits, numeric owner and group, modification time to the nanosecond, symlink targets,
/// `user.` attributes and POSIX access lists; later names of a regular file are hard links to its first; large holes
/// are left out. FIFOs and devices are members; sockets, which no archive can hold, and attributes of other
/// namespaces, which only some callers see, are not. The same package gives the same bytes.
///
/// Nothing in the stream depends on more data than is read with it: a checksum of a file's data would make a read behind a
/// large file read that file, for as long as that takes (23 s for `stat` of other users with eleven such reads of 2 GB).
///
/// A member costs about 120 bytes and its name here; headers are made when they are read. What is remembered of a package for
/// longer is its `beginning`.
public final class PackageLayout: Sendable {
  /// The stream's length in bytes, a multiple of 512.
  public let size: Int64
  /// The newest modification time of any part, the directory itself included.
  public let newestModification: timespec
  /// What the package looked like; see `PackageStamp`.
  public let stamp: PackageStamp
  /// Whether the layout is the one that a user with all rights would get: false when a file with holes could not be opened.
  public let isComplete: Bool
  /// Members of which this layout knows the place, the package's own directory included.
  public var memberCount: Int { entries.count }
  /// What the stream's header names.
  public let type: String

  let start: [UInt8]
  let entries: EntryList
  private let names: ContiguousArray<UInt8>
  private let extras: ContiguousArray<Extra>

  /// A member, with what tells whether its file is still the one that was looked at.
  struct Entry {
    /// Of the head in the stream.
    var offset: Int64 = 0
    let identity: FileIdentity
    let size: Int64
    let device: UInt64
    let modified: FileTime
    let changed: FileTime
    var nameStart: Int
    /// The directory's member, or -1 for the package's own directory and what is directly in it.
    let parent: Int32
    let mode: UInt32
    let owner: UInt32
    let group: UInt32
    var headLength: UInt32 = 0
    /// The member that this one is a hard link to, or -1.
    var link: Int32 = -1
    /// Index into `extras`, or -1.
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

    /// The bytes that a stream has of it.
    private static func size(_ status: stat) -> Int64 {
      status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : 0
    }

    /// Whether `status` is that of the file this entry was made from, unchanged.
    func matches(_ status: stat) -> Bool {
      identity == FileIdentity(status) && mode == status.st_mode && size == Self.size(status)
        && modified == FileTime(status.st_mtim) && changed == FileTime(status.st_ctim)
    }
  }

  /// What few members have.
  struct Extra {
    var target: [UInt8] = []
    var attributes: [PaxMember.Attribute] = []
    var sparse: SparseMap?
    var isEmpty: Bool { target.isEmpty && attributes.isEmpty && sparse == nil }
  }

  /// Looks at every part of a package.
  ///
  /// Costs one getdents64 pass per directory and, per entry, one `fstatat` and one `llistxattr`; files with holes are
  /// opened to ask where. One descriptor is open at a time. Symlinks are not followed.
  /// Parts are looked at one after the other: whether the package kept still from the first to the last, a
  /// `PackageStamp` taken afterwards tells when it equals `stamp`.
  ///
  /// - Parameters:
  ///   - package: the package's directory; the caller needs to be able to read it and everything in it.
  ///   - type: the uniform type identifier that the stream's header names.
  ///   - omitted: entries of the package's own directory that are left out.
  /// - Throws: EINVAL when `type` is none; EIO when the package changes meanwhile; EOVERFLOW when a part has more than
  ///   1 MiB of attributes and names or the stream is longer than a file can be; and the errno of the calls.
  public convenience init(
    of package: Directory, type: String, omitting omitted: Set<[UInt8]> = []
  ) throws(Errno) {
    guard let start = GlobalHeader.bytes(type: type) else { throw Errno.invalidArgument }
    var walk = try PackageWalk(package: package, omitting: omitted)
    try walk.run()
    try self.init(walk, start: start, type: type)
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
      // Whole blocks, and room for the last two.
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

  /// Where the two zero blocks begin.
  let trailerOffset: Int64
  /// Where what this layout knows of the stream ends: at `size`, but for a `beginning`.
  private let knownEnd: Int64

  // MARK: - The beginning

  /// The layout of the first `length` bytes of the stream, or of fewer where a member's head alone is longer: extended
  /// attributes may take up 1 MiB. It costs no more memory than `length`, whatever the package holds.
  public func beginning(_ length: Int) -> PackageLayout {
    let count =
      entries.firstIndex { $0.offset >= Int64(length) || Int($0.headLength) > length } ?? entries.count
    return PackageLayout(beginningOf: self, members: count)
  }

  /// Members come before what is in them, and a file's first name before its others: the first members need none of the rest.
  private init(beginningOf layout: PackageLayout, members count: Int) {
    size = layout.size
    newestModification = layout.newestModification
    stamp = layout.stamp
    isComplete = layout.isComplete
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

  /// Whether this layout knows what a read of so many bytes gives.
  public func covers(_ count: Int, at offset: Int64) -> Bool {
    offset >= 0 && (knownEnd == size || offset <= knownEnd - Int64(count))
  }

  // MARK: - Looking up

  /// The member whose head or data holds the byte at `offset`, by binary search; `offset` is not before the first.
  func member(at offset: Int64) -> Int {
    var low = 0
    var high = entries.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if entries[middle].offset <= offset { low = middle } else { high = middle }
    }
    return low
  }

  func sparse(_ index: Int) -> SparseMap? {
    let extra = entries[index].extra
    return extra < 0 ? nil : extras[Int(extra)].sparse
  }

  /// Bytes of data that the stream has of a member, without filling.
  func dataLength(_ index: Int) -> Int64 { Self.dataLength(entries[index], extras) }

  private static func dataLength(_ entry: Entry, _ extras: ContiguousArray<Extra>) -> Int64 {
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

  /// What a path adds to the length of a head: known from the parent's, so that a deep directory costs no more than another.
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

    /// A shorter path that is encoded in the same way; nil for a path that is short itself.
    var standIn: [UInt8]? {
      length > 512 ? [UInt8](repeating: isText ? 0x61 : 0xff, count: 512) : nil
    }
  }

  /// The length of a member's head, or nil when it is longer than every program reads.
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

  /// The same for a member that needs an extended header for its modification time at most, as nearly all do; nil for others.
  /// The extended header is not made for it, which takes as long as a system call.
  private static func plainHeadLength(_ entry: Entry, _ path: PathShape) -> Int64? {
    guard entry.link < 0, entry.extra < 0, path.isASCII,
      UstarHeader.fitsPlain(pathLength: path.length, size: entry.size, owner: entry.owner, group: entry.group)
    else { return nil }
    // An extended header of one time has a header and one block.
    return UstarHeader.fits(entry.modified) ? 512 : 3 * 512
  }

  /// - Parameter target: of a hard link, the path of the file's first name; nil for everything else.
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
      // The kernel's huge encoding of a device number, as glibc's <sys/sysmacros.h> takes it apart.
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
  /// The kind of a file with these type bits; sockets have none and are never asked for.
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
