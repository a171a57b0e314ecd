import BackingTree
import Glibc
import SystemPackage

/// A file that was found to be the whole, harmless stream of a package, to be unpacked.
///
/// Nothing is believed that is not checked: only what `PackageLayout` itself makes is taken, byte for byte, apart from
/// the files' data. A member of the wrong place, a name that is absolute or has `..`, a symlink that leads out of the
/// package, a link to what did not come before and a device are refused, and so is every damage of
/// a header, a stream that is cut off, and one that goes on after its end. A changed byte of a file's data is noticed only in a
/// stream of an earlier version, which carries checksums of the data: otherwise as little as in any file that is copied.
public struct PackageImport: Sendable {
  /// What is more than this is refused.
  public struct Limits: Sendable {
    /// Members in a package. The check keeps about 16 bytes for each.
    public var members: Int

    public init(members: Int = 1_000_000) { self.members = members }
  }

  /// Whose the unpacked files are.
  public enum Ownership: Sendable {
    /// The caller's; set-user-ID and set-group-ID bits of files, which would be about somebody else, are dropped.
    case caller
    /// The owners and groups of the stream; takes the privilege to give files away.
    case recorded
  }

  /// The uniform type identifier that the stream names.
  public let type: String
  /// The members of the package, its own directory included.
  public let memberCount: Int

  private let descriptor: CInt
  private let limits: Limits
  private let checked: FileState

  /// What tells whether the stream is still the one that was checked.
  private struct FileState: Equatable {
    let identity: FileIdentity
    let size: Int64
    let modified: FileTime
    let changed: FileTime

    init(_ descriptor: CInt) throws(Errno) {
      let status = try fileStatus(descriptor)
      identity = FileIdentity(status)
      size = Int64(status.st_size)
      modified = FileTime(status.st_mtim)
      changed = FileTime(status.st_ctim)
    }
  }

  /// The type of the package whose stream a file begins like, or nil; reads the first 1024 bytes.
  ///
  /// - Parameter descriptor: open for reading.
  public static func type(of descriptor: CInt) -> String? {
    guard let start = try? read(descriptor, GlobalHeader.length, at: 0) else { return nil }
    return GlobalHeader.type(start)
  }

  /// Checks a whole stream, reading its headers.
  ///
  /// - Parameter descriptor: a regular file open for reading, which the caller keeps open; its offset is not used.
  public init(checking descriptor: CInt, limits: Limits = Limits()) throws(PackageImportError) {
    checked = try doing("Looking at the file") { () throws(Errno) in try FileState(descriptor) }
    var scanner = try StreamScanner(descriptor, limits: limits)
    while try scanner.next() != nil {}
    type = scanner.type
    memberCount = scanner.memberCount
    self.descriptor = descriptor
    self.limits = limits
  }

  /// Reads the data too, and compares the checksums that it has.
  public func checkData() throws(PackageImportError) {
    var scanner = try StreamScanner(descriptor, limits: limits)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4096)
    defer { buffer.deallocate() }
    var sum = DataChecksum()
    while let found = try scanner.next() {
      if let told = found.member.precedingSum, told != sum.value {
        throw .damaged("The data before \(readable(found.member.path)) is damaged.")
      }
      sum = DataChecksum()
      var done: Int64 = 0
      while done < found.member.dataLength {
        let part = UnsafeMutableRawBufferPointer(
          rebasing: buffer[..<Int(min(Int64(buffer.count), found.member.dataLength - done))])
        let count = try doing("Reading the stream") { () throws(Errno) in
          try readFully(descriptor, into: part, at: found.data + done)
        }
        guard count == part.count else { throw .damaged("The stream ends too early.") }
        sum.add(UnsafeRawBufferPointer(part))
        done += Int64(count)
      }
    }
  }

  /// Unpacks the package into an empty directory, which gets the package's mode, time and attributes, and waits until
  /// all of it is on the disk.
  ///
  /// Every member is judged again on the way. Modes, times, symlinks, hard links, attributes and holes are restored;
  /// one that the file system refuses is a failure. Nothing outside `directory` is touched and no symlink followed.
  /// After an error the directory holds part of the package, and the caller removes it.
  public func unpack(into directory: Directory, owners: Ownership = .caller) throws(PackageImportError) {
    var unpacking = try PackageUnpacking(into: directory, from: descriptor, owners: owners)
    var scanner = try StreamScanner(descriptor, limits: limits)
    var directories: [Int64] = []
    var position = scanner.position
    while let found = try scanner.next() {
      if found.member.kind == .directory { directories.append(position) }
      try unpacking.make(found)
      position = scanner.position
    }
    // Whatever is made in a directory changes its time, and its mode or access list may forbid it: so they come last,
    // those inside before those around them; the package's own came last in the stream and is the outermost.
    for position in directories.dropLast().reversed() + directories.suffix(1) {
      try unpacking.finish(try scanner.member(at: position).member)
    }
    try unpacking.sync()
    let now = try doing("Looking at the file") { () throws(Errno) in try FileState(descriptor) }
    guard now == checked else { throw .damaged("The stream changed while it was unpacked.") }
  }
}
