import SystemPackage

/// The first header of a stream, which identifies it as a package and names the package's type.
///
/// It is a pax global header whose first record is `comment=displayfs:<type>`: the text `comment=displayfs:` is at offset 515 of
/// the stream (516 when the type has more than 77 bytes), where a rule of shared-mime-info matches it.
enum GlobalHeader {
  private static let mark = Array("displayfs:".utf8)

  /// The header for a package of this uniform type identifier; nil when `type` is not a valid identifier.
  static func bytes(type: String) -> [UInt8]? {
    let identifier = Array(type.utf8)
    guard isIdentifier(identifier) else { return nil }
    var records = PaxRecords()
    records.add("comment", mark + identifier)
    var bytes = UstarHeader(
      name: Array("./PaxHeaders/package".utf8), size: Int64(records.bytes.count), type: 0x67
    ).bytes
    bytes.append(contentsOf: records.bytes)
    bytes.append(contentsOf: repeatElement(0, count: padding(records.bytes.count)))
    return bytes
  }

  /// The length of the header, which does not depend on the type.
  static let length = 1024

  /// The type named by a stream's first 1024 bytes; nil when they are not exactly what `bytes(type:)` produces.
  static func type(_ start: [UInt8]) -> String? {
    guard start.count >= length, let header = UstarHeader(parsing: start[..<512]), header.type == 0x67,
      header.size > 0, header.size <= 512,
      let records = PaxRecords.parse(start[512..<(512 + Int(header.size))]),
      records.count == 1, records[0].value.starts(with: mark),
      let type = String(validating: records[0].value.dropFirst(mark.count), as: UTF8.self),
      let expected = bytes(type: type), start.starts(with: expected)
    else { return nil }
    return type
  }

  /// Apple's "Uniform Type Identifiers Overview": letters, digits, `-`, `.` and every character beyond ASCII.
  private static func isIdentifier(_ bytes: [UInt8]) -> Bool {
    (1...255).contains(bytes.count)
      && bytes.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x80...: true
        default: false
        }
      }
  }
}
