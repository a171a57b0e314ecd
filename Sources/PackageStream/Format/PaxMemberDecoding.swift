extension PaxMember {
  /// Decodes a member from its headers. The caller compares the member's `head()` with them.
  ///
  /// - Parameter sparseData: returns the beginning of the stored data, which holds a sparse file's list.
  /// - Returns: nil when a field has a value that no encoding has.
  static func decode(
    _ header: UstarHeader, _ records: ArraySlice<UInt8>, sparseData: (_ stored: Int64) -> [UInt8]?
  ) -> PaxMember? {
    guard let records = PaxRecords.parse(records), let kind = Kind(rawValue: header.type) else { return nil }
    var name = header.name[...]
    var target = header.linkName[...]
    var stored = header.size
    var realSize: Int64?
    var member = PaxMember(
      path: [], kind: kind, mode: header.mode, owner: header.owner, group: header.group,
      modified: header.modified)
    for (keyword, value) in records {
      if let attribute = PaxRecords.attributeName(keyword) {
        if let last = member.attributes.last, !last.name.lexicographicallyPrecedes(attribute) { return nil }
        guard CarriedAttributes.contains(attribute) else { return nil }
        member.attributes.append(Attribute(name: attribute, value: Array(value)))
        continue
      }
      switch String(validating: keyword, as: UTF8.self) {
      case "hdrcharset", "GNU.sparse.major", "GNU.sparse.minor": break
      case "path", "GNU.sparse.name": name = value
      case "linkpath": target = value
      case "size":
        guard let size = decimal(value) else { return nil }
        stored = size
      case "uid":
        guard let owner = decimal(value).flatMap({ UInt32(exactly: $0) }) else { return nil }
        member.owner = owner
      case "gid":
        guard let group = decimal(value).flatMap({ UInt32(exactly: $0) }) else { return nil }
        member.group = group
      case "mtime":
        guard let time = PaxRecords.time(value) else { return nil }
        member.modified = time
      case "GNU.sparse.realsize":
        guard let size = decimal(value) else { return nil }
        realSize = size
      case "comment":
        guard value.starts(with: PaxMember.sumMark),
          let digits = String(validating: value.dropFirst(PaxMember.sumMark.count), as: UTF8.self),
          let sum = UInt32(digits, radix: 16)
        else { return nil }
        member.precedingSum = sum
      default: return nil
      }
    }
    guard let path = unwritten(name, directory: kind == .directory) else { return nil }
    member.path = path
    member.deviceMajor = header.deviceMajor
    member.deviceMinor = header.deviceMinor
    switch kind {
    case .hardLink:
      guard let first = unwritten(target, directory: false), member.attributes.isEmpty else { return nil }
      member.target = first
    case .symlink:
      member.target = Array(target)
    case .regular:
      member.size = stored
      if let realSize {
        guard let data = sparseData(stored), let map = SparseMap(parsing: data, size: realSize),
          map.dataLength <= stored
        else { return nil }
        member.size = realSize
        member.sparse = map
      }
    default:
      break
    }
    return member
  }

  /// The inverse of `written`; nil for a name that `written` does not produce.
  private static func unwritten(_ name: ArraySlice<UInt8>, directory: Bool) -> [UInt8]? {
    guard name.starts(with: [0x2e, 0x2f]) else { return nil }
    let path = name.dropFirst(2)
    guard directory && !path.isEmpty else { return Array(path) }
    return path.last == 0x2f ? Array(path.dropLast()) : nil
  }
}
