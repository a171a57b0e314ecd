import BackingTree
import Glibc
import SystemPackage

/// The state of a package at one moment, to detect later changes.
///
/// It covers identity, mode, owner, size, modification and change time of every part. Adding, renaming or removing an entry
/// changes its directory's times. Taking a stamp costs a getdents64 pass per directory and an `fstatat` per entry, like `du -s`:
/// it sorts no names and reads neither attributes nor files.
public struct PackageStamp: Hashable, Sendable {
  private var first: UInt64 = 0
  private var second: UInt64 = 0
  private var count = 0
  private var newestChange = FileTime.distantPast
  private var taken = FileTime.epoch

  /// An empty stamp, to be filled with `add`. Its time is now.
  init() {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    taken = FileTime(now)
  }

  /// Reads the status of every part of a package.
  ///
  /// - Parameters:
  ///   - omitted: as for ``PackageLayout``.
  ///   - mayMove: whether to leave out the change time of the package's own directory, which a rename changes.
  /// - Throws: the errno of the calls; EIO when the package changes meanwhile.
  public init(of package: Directory, omitting omitted: Set<[UInt8]> = [], mayMove: Bool = false) throws(Errno)
  {
    self.init()
    var own = try package.status()
    if mayMove { own.st_ctim = timespec() }
    add(own)
    var cursor = try TreeCursor(package)
    // Directories still to be read, and their depth.
    var pending: [(name: [UInt8], depth: Int)] = []
    while true {
      guard cursor.path.count <= PaxMember.longestPath else { throw Errno.overflow }
      let directory = cursor.directory
      let depth = cursor.depth + 1
      try forEachEntry(of: directory.descriptor) { (entry) throws(Errno) in
        try Interruption.check()
        if depth == 1, !omitted.isEmpty, omitted.contains(Array(entry.name)) { return }
        let status: stat
        do throws(Errno) { status = try directory.status(entry.cName) } catch { throw error.afterListing }
        add(status)
        if FileType(mode: status.st_mode) == .directory { pending.append((Array(entry.name), depth)) }
      }
      guard let next = pending.popLast() else { return }
      try cursor.leave(to: next.depth - 1)
      do throws(Errno) {
        try next.name.withCName { (name) throws(Errno) in try cursor.enter(name) }
      } catch { throw error.afterListing }
    }
  }

  /// Whether the newest change was at least two seconds old when the pass began.
  ///
  /// Only then may the stamp be cached: the resolution of times is the kernel's tick (two seconds on FAT), and a change in the
  /// same tick as the newest change in the stamp would not alter the stamp.
  public var isSettled: Bool { isSettled(newestChange) }

  /// Whether a change was at least two seconds old when the pass began.
  func isSettled(_ change: FileTime) -> Bool { change.seconds < taken.seconds &- 2 }

  /// Adds a part. The order of the parts does not matter.
  mutating func add(_ status: stat) {
    var hash: UInt64 = 0
    for value in [
      UInt64(status.st_dev), UInt64(status.st_ino), UInt64(status.st_mode),
      UInt64(status.st_uid) << 32 | UInt64(status.st_gid), UInt64(bitPattern: Int64(status.st_size)),
      UInt64(bitPattern: Int64(status.st_mtim.tv_sec)), UInt64(bitPattern: Int64(status.st_mtim.tv_nsec)),
      UInt64(bitPattern: Int64(status.st_ctim.tv_sec)), UInt64(bitPattern: Int64(status.st_ctim.tv_nsec)),
    ] { hash = Self.mix(hash ^ value) }
    first &+= hash
    second &+= Self.mix(hash)
    count += 1
    newestChange = max(newestChange, FileTime(status.st_ctim))
  }

  public static func == (left: PackageStamp, right: PackageStamp) -> Bool {
    (left.first, left.second, left.count) == (right.first, right.second, right.count)
  }

  public func hash(into hasher: inout Hasher) { hasher.combine(first) }

  /// The finalizer of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators").
  @inline(__always)
  private static func mix(_ value: UInt64) -> UInt64 {
    var value = value &+ 0x9e37_79b9_7f4a_7c15
    value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
    return value ^ value >> 31
  }
}

extension Errno {
  /// The error for an entry that existed a moment ago: EIO when it is gone or has another type.
  var afterListing: Errno {
    switch self {
    case .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels, .noSuchAddressOrDevice: .ioError
    default: self
    }
  }
}
