/// One member of a stream: everything about it except its data.
///
/// Encoded as POSIX.1-2024 "pax Interchange Format" says, in one canonical way: the same member gives the same bytes,
/// and a head that decodes to a member but is not that member's encoding is refused.
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

  /// Relative to the package, components separated by single slashes; empty for the package's own directory.
  var path: [UInt8]
  var kind: Kind
  /// The twelve permission bits.
  var mode: UInt32
  var owner: UInt32
  var group: UInt32
  var modified: FileTime
  /// Of a regular file, holes included; 0 for everything else.
  var size: Int64 = 0
  var deviceMajor: UInt32 = 0
  var deviceMinor: UInt32 = 0
  /// The text of a symlink, or the path of a hard link's first name.
  var target: [UInt8] = []
  /// Extended attributes sorted by name.
  var attributes: [Attribute] = []
  var sparse: SparseMap?
  /// The CRC-32 of the data that the member before this one has in the stream. Streams that earlier versions made carry it,
  /// as a comment; no stream is made with it any more.
  var precedingSum: UInt32?

  /// Bytes of data that follow the head, before they are filled up to a block.
  var dataLength: Int64 { sparse?.dataLength ?? size }

  static let sumMark = Array("crc32:".utf8)

  /// The longest path and the longest extended header. libarchive reads no extended header above 1 MiB.
  static let longestPath = 128 << 10
  static let longestRecords = 1 << 20

  /// How a path is written: below `./`, so that tar knows the member of the package's own directory, `./`, for the
  /// parent of all others.
  static func written(_ path: [UInt8], directory: Bool) -> [UInt8] {
    var name: [UInt8] = [0x2e, 0x2f]
    name.append(contentsOf: path)
    if directory && !path.isEmpty { name.append(0x2f) }
    return name
  }
}

// MARK: - Encoding

extension PaxMember {
  /// The extended header, the ustar header and the sparse list: all that comes before the data, in whole blocks.
  func head() -> [UInt8] {
    let records = records()
    var head: [UInt8] = []
    head.reserveCapacity(Int(headLength(records: records.count)))
    if !records.isEmpty {
      // The name of an extended header is free. A checksum of what ustar's own does not cover is worth more here
      // than a directory that old programs would extract it into.
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

  /// `head().count` without making it, or nil when the path or the extended header is longer than every program reads.
  func headLength() -> Int64? { headLength(path: path.count, target: nil) }

  /// The same for a path, and the target of a hard link, that are so long, of which the member holds shorter ones that are
  /// encoded in the same way.
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

  /// The data with the list before it, which is what the size field counts.
  private var storedLength: Int64 { dataLength + Int64(sparse?.text.count ?? 0) }

  private var name: [UInt8] { Self.written(path, directory: kind == .directory) }

  private var linkName: [UInt8] { kind == .hardLink ? Self.written(target, directory: false) : target }

  /// What a program sees that does not know sparse files: not the file's name, as it would not get the file.
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

/// Eight digits.
func hexadecimal(_ value: UInt32) -> [UInt8] {
  let digits = String(value, radix: 16).utf8
  return Array(repeating: 0x30, count: 8 - digits.count) + digits
}
