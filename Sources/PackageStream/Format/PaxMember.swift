/// One member of a stream: all of its metadata.
///
/// Encoded as defined by POSIX.1-2024, "pax Interchange Format", in one canonical way: equal members have equal bytes. A head
/// that decodes to a member but differs from that member's encoding is refused.
struct PaxMember: Equatable {
  /// The `typeflag` of ustar.
  enum Kind: UInt8 {
    case regular = 0x30
    case hardLink, symlink, characterDevice, blockDevice, directory, fifo
  }

  struct Attribute: Equatable {
    let name: [UInt8]
    let value: [UInt8]
  }

  /// The path relative to the package, components separated by single slashes; empty for the package's own directory.
  var path: [UInt8]
  var kind: Kind
  /// The twelve permission bits.
  var mode: UInt32
  var owner: UInt32
  var group: UInt32
  var modified: FileTime
  /// The size of a regular file, including holes; 0 for every other kind.
  var size: Int64 = 0
  var deviceMajor: UInt32 = 0
  var deviceMinor: UInt32 = 0
  /// The target of a symlink, or the path of a hard link's first name.
  var target: [UInt8] = []
  /// Extended attributes sorted by name.
  var attributes: [Attribute] = []
  var sparse: SparseMap?
  /// The CRC-32 of the previous member's data. Earlier versions wrote it, as a comment; this version only reads it.
  var precedingSum: UInt32?

  /// The number of bytes of data after the head, without the padding to a block.
  var dataLength: Int64 { sparse?.dataLength ?? size }

  static let sumMark = Array("crc32:".utf8)

  /// The limits of a path and of an extended header. libarchive reads no extended header above 1 MiB.
  static let longestPath = 128 << 10
  static let longestRecords = 1 << 20

  /// A path as written in the stream: below `./`, so that tar treats the member of the package's own directory, `./`, as the
  /// parent of all other members.
  static func written(_ path: [UInt8], directory: Bool) -> [UInt8] {
    var name: [UInt8] = [0x2e, 0x2f]
    name.append(contentsOf: path)
    if directory && !path.isEmpty { name.append(0x2f) }
    return name
  }
}

// MARK: - Encoding

extension PaxMember {
  /// The extended header, the ustar header and the sparse list: everything before the data, in whole blocks.
  func head() -> [UInt8] {
    let records = records()
    var head: [UInt8] = []
    head.reserveCapacity(Int(headLength(records: records.count)))
    if !records.isEmpty {
      // The name of an extended header is arbitrary. Use it for a checksum of the records and the list, which ustar's own
      // checksum does not cover. Programs without pax support would extract the header to a file of that name.
      let sum = hexadecimal(DataChecksum.of(records + (sparse?.text ?? [])))
      head.append(
        contentsOf: UstarHeader(
          name: Array("./PaxHeaders/".utf8) + sum, size: Int64(records.count), type: 0x78
        ).bytes)
      head.append(contentsOf: records)
      head.append(contentsOf: repeatElement(0, count: padding(records.count)))
    }
    head.append(contentsOf: ustar().bytes)
    if let sparse { head.append(contentsOf: sparse.text) }
    return head
  }

  /// `head().count` without generating the head; nil when the path or the extended header exceeds its limit.
  func headLength() -> Int64? { headLength(path: path.count, target: nil) }

  /// The same for a path and a hard link target of the given lengths. The member holds shorter ones with the same encoding.
  func headLength(path length: Int, target targetLength: Int?) -> Int64? {
    var records = records().count
    if length > path.count {
      let name = name.count
      let keyword = sparse == nil ? "path" : "GNU.sparse.name"
      records += PaxRecords.length(keyword.utf8.count, name + length - path.count)
      records -= PaxRecords.length(keyword.utf8.count, name)
    }
    if let targetLength, targetLength > target.count {
      let name = linkName.count
      records += PaxRecords.length("linkpath".utf8.count, name + targetLength - target.count)
      records -= PaxRecords.length("linkpath".utf8.count, name)
    }
    guard length <= Self.longestPath, records <= Self.longestRecords else { return nil }
    return headLength(records: records)
  }

  private func headLength(records: Int) -> Int64 {
    Int64((records == 0 ? 0 : 512 + records + padding(records)) + 512 + (sparse?.text.count ?? 0))
  }

  private func ustar() -> UstarHeader {
    var header = UstarHeader(name: ustarName, size: storedLength, type: kind.rawValue)
    header.mode = mode
    header.owner = owner
    header.group = group
    header.modified = modified
    header.linkName = linkName
    header.deviceMajor = deviceMajor
    header.deviceMinor = deviceMinor
    return header
  }

  /// The length of the sparse list and the data, which is the value of the size field.
  private var storedLength: Int64 { dataLength + Int64(sparse?.text.count ?? 0) }

  private var name: [UInt8] { Self.written(path, directory: kind == .directory) }

  private var linkName: [UInt8] { kind == .hardLink ? Self.written(target, directory: false) : target }

  /// The name for programs without support for sparse files. Not the file's own name, because they would extract the list and the
  /// data without the holes.
  private var ustarName: [UInt8] {
    guard sparse != nil else { return name }
    return Array("./GNUSparseFile.0/".utf8) + (path.split(separator: 0x2f).last ?? [])
  }

  private func records() -> [UInt8] {
    var out = PaxRecords()
    let name = name
    let linkName = linkName
    let namesAreText = isUTF8(name) && isUTF8(linkName)
    if !namesAreText { out.add("hdrcharset", Array("BINARY".utf8)) }
    if sparse == nil && !UstarHeader.fits(name) { out.add("path", name) }
    if !UstarHeader.fits(linkName) { out.add("linkpath", linkName) }
    if storedLength > UstarHeader.largestSize { out.add("size", storedLength) }
    if owner > UstarHeader.largestOwner { out.add("uid", Int64(owner)) }
    if group > UstarHeader.largestOwner { out.add("gid", Int64(group)) }
    if !UstarHeader.fits(modified) { out.add("mtime", modified) }
    if sparse != nil {
      out.add("GNU.sparse.major", 1)
      out.add("GNU.sparse.minor", 0)
      out.add("GNU.sparse.name", name)
      out.add("GNU.sparse.realsize", size)
    }
    for attribute in attributes { out.add(attribute) }
    if let precedingSum { out.add("comment", Self.sumMark + hexadecimal(precedingSum)) }
    return out.bytes
  }
}

/// Whether the bytes are well-formed UTF-8.
func isUTF8(_ bytes: [UInt8]) -> Bool { String(validating: bytes, as: UTF8.self) != nil }

/// Eight hexadecimal digits.
func hexadecimal(_ value: UInt32) -> [UInt8] {
  let digits = String(value, radix: 16).utf8
  return Array(repeating: 0x30, count: 8 - digits.count) + digits
}
