/// The body of an extended header: records `<length> <keyword>=<value>\n`. The length is decimal and includes its own digits.
struct PaxRecords {
  private(set) var bytes: [UInt8] = []

  mutating func add(_ keyword: some Collection<UInt8>, _ value: some Collection<UInt8>) {
    bytes.append(contentsOf: String(Self.length(keyword.count, value.count)).utf8)
    bytes.append(0x20)
    bytes.append(contentsOf: keyword)
    bytes.append(0x3d)
    bytes.append(contentsOf: value)
    bytes.append(0x0a)
  }

  /// The length of a record with a keyword and a value of the given lengths.
  static func length(_ keyword: Int, _ value: Int) -> Int {
    let rest = keyword + value + 3
    var digits = 1
    while String(rest + digits).utf8.count != digits { digits += 1 }
    return rest + digits
  }

  mutating func add(_ keyword: StaticString, _ value: [UInt8]) { add(Self.bytes(keyword), value) }

  mutating func add(_ keyword: StaticString, _ value: Int64) {
    add(Self.bytes(keyword), Array(String(value).utf8))
  }

  /// A time in pax format: decimal seconds with nine digits of fraction. The sign applies to the whole number.
  mutating func add(_ keyword: StaticString, _ time: FileTime) {
    guard time.nanoseconds != 0 else { return add(keyword, time.seconds) }
    let isNegative = time.seconds < 0
    let seconds = isNegative ? -(time.seconds + 1) : time.seconds
    let nanoseconds = isNegative ? 1_000_000_000 - time.nanoseconds : time.nanoseconds
    let digits = String(nanoseconds)
    let fraction = String(repeating: "0", count: max(0, 9 - digits.utf8.count)) + digits
    add(keyword, Array("\(isNegative ? "-" : "")\(seconds).\(fraction)".utf8))
  }

  /// An extended attribute under star's keyword. A keyword ends at its first `=`, so `%` and `=` in the attribute's name are
  /// written `%25` and `%3D`, as in GNU tar.
  mutating func add(_ attribute: PaxMember.Attribute) {
    var keyword = Self.attributePrefix
    for byte in attribute.name {
      switch byte {
      case 0x25: keyword.append(contentsOf: [0x25, 0x32, 0x35])
      case 0x3d: keyword.append(contentsOf: [0x25, 0x33, 0x44])
      default: keyword.append(byte)
      }
    }
    add(keyword, attribute.value)
  }

  private static let attributePrefix = Array("SCHILY.xattr.".utf8)

  private static func bytes(_ text: StaticString) -> UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
  }

  // MARK: - Reading

  /// Splits a body into its records, in order; nil when it is malformed.
  static func parse(_ body: ArraySlice<UInt8>) -> [(keyword: ArraySlice<UInt8>, value: ArraySlice<UInt8>)]? {
    var records: [(keyword: ArraySlice<UInt8>, value: ArraySlice<UInt8>)] = []
    var rest = body
    while !rest.isEmpty {
      guard let space = rest.prefix(20).firstIndex(of: 0x20), let length = decimal(rest[..<space]),
        length <= rest.count, length > space - rest.startIndex + 2
      else { return nil }
      let end = rest.startIndex + Int(length)
      guard rest[end - 1] == 0x0a, let equals = rest[(space + 1)..<(end - 1)].firstIndex(of: 0x3d) else {
        return nil
      }
      records.append((rest[(space + 1)..<equals], rest[(equals + 1)..<(end - 1)]))
      rest = rest[end...]
    }
    return records
  }

  /// The attribute's name in a keyword; nil when the keyword is not that of an attribute.
  static func attributeName(_ keyword: ArraySlice<UInt8>) -> [UInt8]? {
    guard keyword.starts(with: attributePrefix) else { return nil }
    var name: [UInt8] = []
    var rest = keyword.dropFirst(attributePrefix.count)
    while let byte = rest.popFirst() {
      guard byte == 0x25 else {
        name.append(byte)
        continue
      }
      switch Array(rest.prefix(2)) {
      case [0x32, 0x35]: name.append(0x25)
      case [0x33, 0x44]: name.append(0x3d)
      default: return nil
      }
      rest = rest.dropFirst(2)
    }
    return name
  }

  /// Parses a time in the format of `add`; nil when it is malformed.
  static func time(_ value: ArraySlice<UInt8>) -> FileTime? {
    let isNegative = value.first == 0x2d
    let parts = (isNegative ? value.dropFirst() : value).split(
      separator: 0x2e, omittingEmptySubsequences: false)
    guard parts.count <= 2, let first = parts.first, let seconds = decimal(first) else { return nil }
    guard parts.count == 2 else { return FileTime(seconds: isNegative ? -seconds : seconds, nanoseconds: 0) }
    guard parts[1].count == 9, let nanoseconds = decimal(parts[1]) else { return nil }
    guard isNegative, nanoseconds > 0 else {
      return FileTime(seconds: isNegative ? -seconds : seconds, nanoseconds: Int32(nanoseconds))
    }
    return FileTime(seconds: -seconds - 1, nanoseconds: Int32(1_000_000_000 - nanoseconds))
  }
}
