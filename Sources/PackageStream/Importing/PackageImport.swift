import BackingTree
import Glibc
import SystemPackage

/// A file that was checked to be a complete and harmless stream of a package, ready to be unpacked.
///
/// The check accepts only the exact bytes that `PackageLayout` produces, apart from the files' data. It refuses a member out of
/// place, an absolute name or one with `..`, a symlink that leads out of the package, a hard link to a file that did not come
/// before it, a device, a damaged header, a truncated stream and a stream with trailing data. It detects a changed byte of a
/// file's data only in a stream of an earlier version, which has checksums of the data. In other streams such a change goes
/// unnoticed, as in any file that is copied.
public struct PackageImport: Sendable {
  /// The limits above which a stream is refused.
  public struct Limits: Sendable {
    /// Members in a package. The check keeps about 16 bytes for each.
    public var members: Int

    public init(members: Int = 1_000_000) { self.members = members }
  }

  /// The owner of the unpacked files.
  public enum Ownership: Sendable {
    /// The caller's user. Set-user-ID and set-group-ID bits of files were meant for another user and are dropped.
    case client
    /// The owners and groups recorded in the stream. Needs the privilege to change the owner of a file.
    case recorded
  }

  /// The uniform type identifier that the stream names.
  public let type: String
  /// The number of members of the package, including its own directory.
  public let memberCount: Int

  private let descriptor: CInt
  private let limits: Limits
  private let checked: FileState

  /// The file's state, by which `unpack` detects that the stream changed after the check.
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

  /// The smallest size in bytes of a file that begins like a package's stream.
  public static let minimumSize = Int64(GlobalHeader.length)

  /// The type of the package if a file begins like a package's stream, otherwise nil. Reads the first 1024 bytes.
  ///
  /// - Parameter descriptor: open for reading.
  public static func type(of descriptor: CInt) -> String? {
    guard let start = try? read(descriptor, GlobalHeader.length, at: 0) else { return nil }
    return GlobalHeader.type(start)
  }

  /// Checks a whole stream. Reads the headers and skips the files' data.
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

  /// Unpacks the package into an empty directory, which gets the package's mode, time and attributes. Returns when everything is
  /// on the disk.
  ///
  /// Every member is checked again while unpacking. Modes, times, symlinks, hard links, attributes and holes are restored; if the
  /// file system refuses one, unpacking fails. Nothing outside `directory` is changed and no symlink is followed. After an error
  /// the directory holds part of the package, and the caller removes it.
  ///
  /// Where the directory has a set-group-ID bit, all parts get its group.
  ///
  /// - Parameter writers: the users to which modes and access lists may grant write permission; nil for all that the stream
  ///   records.
  public func unpack(
    into directory: Directory, owners: Ownership = .client, writers: WritePermission? = nil
  ) throws(PackageImportError) {
    var unpacking = try PackageUnpacking(into: directory, from: descriptor, owners: owners, writers: writers)
    var scanner = try StreamScanner(descriptor, limits: limits)
    var directories: [Int64] = []
    var position = scanner.position
    while let found = try scanner.next() {
      if found.member.kind == .directory { directories.append(position) }
      try unpacking.make(found)
      position = scanner.position
    }
    // Creating an entry changes the directory's time, and a directory's final mode or access list may forbid it. Directories are
    // therefore finished last, inner ones before outer ones. The package's own directory is the last in the stream and the
    // outermost.
    for position in directories.dropLast().reversed() + directories.suffix(1) {
      try unpacking.finish(try scanner.member(at: position).member)
    }
    try unpacking.sync()
    let now = try doing("Looking at the file") { () throws(Errno) in try FileState(descriptor) }
    guard now == checked else { throw .damaged("The stream changed while it was unpacked.") }
  }
}
