import CLinux
import Glibc
import SystemPackage

/// One entry as getdents64 reports it.
public struct RawDirectoryEntry {
  public let inode: UInt64
  public let type: FileType
  /// The name's bytes, valid during the callback only; followed by a NUL in memory.
  public let name: UnsafeBufferPointer<UInt8>

  /// The name as a C string.
  public var cName: UnsafePointer<CChar> {
    UnsafeRawPointer(name.baseAddress!).assumingMemoryBound(to: CChar.self)
  }
}

/// The entries of an open directory without `.` and `..`. A small directory can be read as a whole before the first is used.
/// (`getdents64`)
public struct DirectoryReader: ~Copyable {
  private let descriptor: CInt
  private let ahead: DirectoryReadAhead?
  private var block: UnsafeMutableRawBufferPointer
  /// The size of the records in `block` that `readAll` has not passed on, in bytes.
  private var count = 0
  private var isAtEnd = false

  /// - Parameters:
  ///   - descriptor: open for reading; it is read from its current offset.
  ///   - size: the size of the directory itself, in bytes, as far as it is known. For a small one 8 KiB are read at first: for each
  ///     block of 64 KiB the heap grows and shrinks again.
  ///   - ahead: the entries, if another thread is reading them.
  public init(of descriptor: CInt, size: Int, _ ahead: DirectoryReadAhead? = nil) {
    self.descriptor = descriptor
    self.ahead = ahead
    let length = ahead != nil ? 0 : size > 4096 ? Self.largeBlock : 8 * 1024
    block = .allocate(byteCount: length, alignment: 8)
  }

  private static let largeBlock = 64 * 1024

  deinit { block.deallocate() }

  /// The number of entries that `readFirst` has read, or a larger one: a record takes 24 bytes or more.
  public var mostEntriesRead: Int { count / 24 }

  /// Reads as many entries as there is memory for. - Returns: whether these are all.
  public mutating func readFirst() throws(Errno) -> Bool {
    if ahead != nil { return false }
    while !isAtEnd {
      do throws(Errno) { try readMore() } catch {
        // The next record is longer than what is left.
        guard error == .invalidArgument, count > 0 else { throw error }
        break
      }
    }
    return isAtEnd
  }

  private mutating func readMore() throws(Errno) {
    let read = try systemCall {
      dfs_getdents(descriptor, block.baseAddress! + count, block.count - count)
    }
    count += read
    isAtEnd = read == 0
  }

  /// Whether `readFirst` has read an entry of that name, in upper or lower case: a directory may ignore the case of letters.
  public func holds(_ name: UnsafePointer<CChar>) -> Bool {
    let isElsewhere = try? forEachEntry(in: records) { (entry, _) throws(Errno) in
      strcasecmp(entry.cName, name) != 0
    }
    return isElsewhere == false
  }

  private var records: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: block[..<count]) }

  /// Calls `body` with each entry. To be called once.
  public mutating func readAll(_ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void) throws(Errno) {
    if let ahead { return try ahead.forEach(body) }
    repeat {
      _ = try forEachEntry(in: records) { (entry, _) throws(Errno) in
        try body(entry)
        return true
      }
      count = 0
      if isAtEnd { break }
      if block.count < Self.largeBlock {
        // It is larger than it was.
        block.deallocate()
        block = .allocate(byteCount: Self.largeBlock, alignment: 8)
      }
      try readMore()
    } while count > 0
  }
}

/// Reads an open directory from its start to its end, without `.` and `..`. (`getdents64`)
///
/// - Parameter descriptor: open for reading; its offset changes.
public func forEachEntry(
  of descriptor: CInt, _ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void
) throws(Errno) {
  try systemCall { lseek(descriptor, 0, SEEK_SET) }
  try forEachEntryWithPosition(of: descriptor) { (entry, _) throws(Errno) in
    try body(entry)
    return true
  }
}

/// Reads an open directory from its current offset, without `.` and `..`, until the end or until `body` returns false.
///
/// The second argument of `body` is the offset of the following entry. (`getdents64`)
///
/// - Parameter bufferSize: the most that one system call reads, in bytes; it does so even where `body` returns false at the first
///   entry.
public func forEachEntryWithPosition(
  of descriptor: CInt, bufferSize: Int = 64 * 1024,
  _ body: (borrowing RawDirectoryEntry, Int64) throws(Errno) -> Bool
) throws(Errno) {
  let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bufferSize, alignment: 8)
  defer { buffer.deallocate() }
  while try readEntries(of: descriptor, buffer, body) == .all {}
}

/// The result of one `getdents64` call.
public enum DirectoryReading: Sendable {
  case atEnd
  /// `body` received all entries of the buffer; there may be more.
  case all
  /// `body` returned false.
  case stopped
}

/// Like `forEachEntryWithPosition`, for as many entries as fit into `buffer`, in one system call.
public func readEntries(
  of descriptor: CInt, _ buffer: UnsafeMutableRawBufferPointer,
  _ body: (borrowing RawDirectoryEntry, Int64) throws(Errno) -> Bool
) throws(Errno) -> DirectoryReading {
  let count = try systemCall { dfs_getdents(descriptor, buffer.baseAddress!, buffer.count) }
  if count == 0 { return .atEnd }
  return try forEachEntry(in: UnsafeRawBufferPointer(rebasing: buffer[..<count]), body) ? .all : .stopped
}

/// Calls `body` with the entries in the records of a `getdents64` call. - Returns: false when `body` returned false.
func forEachEntry(
  in records: UnsafeRawBufferPointer, _ body: (borrowing RawDirectoryEntry, Int64) throws(Errno) -> Bool
) throws(Errno) -> Bool {
  var offset = 0
  while offset < records.count {
    // struct linux_dirent64: u64 inode, s64 offset, u16 record length, u8 type, name.
    let record = records.baseAddress! + offset
    let length = Int(record.loadUnaligned(fromByteOffset: 16, as: UInt16.self))
    let name = (record + 19).assumingMemoryBound(to: UInt8.self)
    let nameLength = strlen(UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))
    offset += length
    if name[0] == 0x2e && (nameLength == 1 || (nameLength == 2 && name[1] == 0x2e)) { continue }
    let entry = RawDirectoryEntry(
      inode: record.loadUnaligned(as: UInt64.self),
      type: FileType(direntType: record.load(fromByteOffset: 18, as: UInt8.self)),
      name: UnsafeBufferPointer(start: name, count: nameLength))
    guard try body(entry, record.loadUnaligned(fromByteOffset: 8, as: Int64.self)) else { return false }
  }
  return true
}
