import BackingTree
import Glibc
import SystemPackage

/// Iterates over the members of a stream and checks each before it returns it.
///
/// A returned member has a head that equals the member's encoding, data that lies within the stream, and a valid position in the
/// tree: members must come in the order of `PackageLayout`, which excludes duplicates and members below anything but a directory.
struct StreamScanner {
  struct Found {
    let member: PaxMember
    /// The offset of the stored data.
    let data: Int64
    /// Whether the next member may have the data's checksum.
    var maySum = true
  }

  let type: String
  let size: Int64
  private(set) var memberCount = 0

  private let descriptor: CInt
  private let limits: PackageImport.Limits
  private var orderValidator: MemberOrderValidator
  private var offset = Int64(GlobalHeader.length)
  private var isDone = false
  /// Whether the previous member had data.
  private var hadData = false
  /// Whether members after data have its checksum, which an earlier version wrote: either all of them or none.
  private var carriesSums: Bool?
  private var window: [UInt8] = []
  private var windowStart: Int64 = 0

  init(_ descriptor: CInt, limits: PackageImport.Limits) throws(PackageImportError) {
    self.descriptor = descriptor
    self.limits = limits
    orderValidator = MemberOrderValidator()
    let status = try doing("Looking at the file") { () throws(Errno) in try fileStatus(descriptor) }
    guard status.st_mode & S_IFMT == S_IFREG, let type = PackageImport.type(of: descriptor) else {
      throw .notAPackage
    }
    self.type = type
    size = Int64(status.st_size)
  }

  /// The offset of the next member's head.
  var position: Int64 { offset }

  /// The next member; nil after the last one. The last one is returned only if the stream ends correctly after it.
  mutating func next() throws(PackageImportError) -> Found? {
    if isDone { return nil }
    try doing("Checking the stream") { () throws(Errno) in try Interruption.check() }
    var found = try member(at: offset)
    let carriesSum = found.member.precedingSum != nil
    if hadData, carriesSums == nil { carriesSums = carriesSum }
    guard carriesSum == (hadData && carriesSums == true) else { throw damaged(offset) }
    hadData = found.member.dataLength > 0
    found.maySum = carriesSums != false
    memberCount += 1
    guard memberCount <= limits.members else {
      throw PackageImportError(
        kind: .refused, description: "The package has more than \(limits.members) members.")
    }
    try orderValidator.check(found.member)
    let end = found.data + found.member.dataLength
    let filling = Int(padding(found.member.dataLength))
    guard try bytes(at: end, count: filling).allSatisfy({ $0 == 0 }) else {
      throw .damaged("The end of \(readable(found.member.path)) is damaged.")
    }
    offset = end + Int64(filling)
    if found.member.path.isEmpty {
      isDone = true
      guard try bytes(at: offset, count: 1024).allSatisfy({ $0 == 0 }), offset + 1024 == size else {
        throw .damaged("The stream goes on after its last member.")
      }
    }
    return found
  }

  /// Decodes the member with the head at `start`.
  mutating func member(at start: Int64) throws(PackageImportError) -> Found {
    var head = try bytes(at: start, count: 512)
    var records: ArraySlice<UInt8> = []
    if head[156] == 0x78 {
      guard let header = UstarHeader(parsing: head[...]), header.size <= PaxMember.longestRecords else {
        throw damaged(start)
      }
      let length = Int(header.size)
      head += try bytes(at: start + 512, count: length + padding(length) + 512)
      records = head[512..<(512 + length)]
    }
    guard let header = UstarHeader(parsing: head.suffix(512)) else { throw damaged(start) }
    let list = start + Int64(head.count)
    let available = size - list
    var failure: PackageImportError?
    let decoded = PaxMember.decode(header, records) { stored in
      do throws(PackageImportError) {
        return try bytes(at: list, count: Int(min(stored, available, Self.longestList)))
      } catch {
        failure = error
        return nil
      }
    }
    if let failure { throw failure }
    guard let member = decoded else { throw damaged(start) }
    // Check before any addition: a forged length is the only number here that could overflow.
    guard member.dataLength <= available, member.headLength() != nil else {
      throw .damaged("\(readable(member.path)) is longer than the rest of the stream.")
    }
    if let sparse = member.sparse { head += sparse.text }
    guard head == member.head() else { throw damaged(start) }
    let data = start + Int64(head.count)
    guard data + member.dataLength + padding(member.dataLength) <= size - 1024 || member.path.isEmpty else {
      throw .damaged("The stream ends within \(readable(member.path)).")
    }
    return Found(member: member, data: data)
  }

  /// The maximum length of a sparse file's list in bytes.
  private static let longestList = Int64(SparseMap.maximumSegments) * 40

  private func damaged(_ offset: Int64) -> PackageImportError {
    .damaged("The header at byte \(offset) is damaged, or was not written by displayfs.")
  }

  /// Reads part of the stream through a window that is cached between calls.
  private mutating func bytes(at start: Int64, count: Int) throws(PackageImportError) -> [UInt8] {
    guard start >= 0, start <= size - Int64(count) else { throw .damaged("The stream ends too early.") }
    if start < windowStart || start + Int64(count) > windowStart + Int64(window.count) {
      let length = Int(min(Int64(max(count, 16 << 10)), size - start))
      window = try doing("Reading the stream") { () throws(Errno) in try read(descriptor, length, at: start) }
      windowStart = start
      guard window.count == length else { throw .damaged("The stream ends too early.") }
    }
    let from = Int(start - windowStart)
    return Array(window[from..<(from + count)])
  }
}

/// Up to `count` bytes of a file.
func read(_ descriptor: CInt, _ count: Int, at offset: Int64) throws(Errno) -> [UInt8] {
  let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
  defer { buffer.deallocate() }
  let done = try readFully(descriptor, into: buffer, at: offset)
  return Array(buffer[..<done])
}
