import CFuse
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

/// Reads an open directory from its start to its end, without `.` and `..`. (`getdents64`)
///
/// - Parameter descriptor: open for reading, its offset is moved.
public func forEachEntry(
  of descriptor: CInt, _ body: (borrowing RawDirectoryEntry) throws(Errno) -> Void
) throws(Errno) {
  try systemCall { lseek(descriptor, 0, SEEK_SET) }
  try forEachEntryWithPosition(of: descriptor) { (entry, _) throws(Errno) in
    try body(entry)
    return true
  }
}

/// Reads an open directory from where its offset is, until `body` returns false, without `.` and `..`.
///
/// `body` is also given the offset at which the following entry is found. (`getdents64`)
public func forEachEntryWithPosition(
  of descriptor: CInt, _ body: (borrowing RawDirectoryEntry, Int64) throws(Errno) -> Bool
) throws(Errno) {
  let size = 64 * 1024
  let buffer = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 8)
  defer { buffer.deallocate() }
  while true {
    let count = try systemCall { dfs_getdents(descriptor, buffer, size) }
    if count == 0 { return }
    var offset = 0
    while offset < count {
      // struct linux_dirent64: u64 inode, s64 offset, u16 record length, u8 type, name.
      let record = buffer + offset
      let length = Int(record.loadUnaligned(fromByteOffset: 16, as: UInt16.self))
      let name = (record + 19).assumingMemoryBound(to: UInt8.self)
      let nameLength = strlen(UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))
      offset += length
      if name[0] == 0x2e && (nameLength == 1 || (nameLength == 2 && name[1] == 0x2e)) { continue }
      let entry = RawDirectoryEntry(
        inode: record.loadUnaligned(as: UInt64.self),
        type: FileType(direntType: record.load(fromByteOffset: 18, as: UInt8.self)),
        name: UnsafeBufferPointer(start: name, count: nameLength))
      guard try body(entry, record.loadUnaligned(fromByteOffset: 8, as: Int64.self)) else { return }
    }
  }
}
