/// Checks that a property list is shallow and small enough for the decoder, which recurses without a limit on XML and binary
/// lists, follows cycles of references in a binary list, and unfolds shared objects.
enum PropertyListGuard {
  /// Whether the elements of an XML list are nested within the limit.
  ///
  /// Comments, CDATA sections, processing instructions and the inside of tags are skipped, so that closing tags in them cannot
  /// hide the real depth.
  static func admitsXML(_ bytes: [UInt8]) -> Bool {
    let skipped: [(open: [UInt8], close: [UInt8])] = [
      (Array("<!--".utf8), Array("-->".utf8)),
      (Array("<![CDATA[".utf8), Array("]]>".utf8)),
      (Array("<?".utf8), Array("?>".utf8)),
    ]
    var depth = 0
    var at = 0
    while let tag = bytes[at...].firstIndex(of: UInt8(ascii: "<")) {
      if let section = skipped.first(where: { bytes.hasBytes($0.open, at: tag) }) {
        guard let end = bytes.firstIndex(of: section.close, from: tag + section.open.count) else {
          return false
        }
        at = end + section.close.count
        continue
      }
      guard let end = bytes[tag...].firstIndex(of: UInt8(ascii: ">")) else { return false }
      switch bytes[tag + 1] {
      case UInt8(ascii: "!"): break
      case UInt8(ascii: "/"): depth = max(0, depth - 1)
      default:
        if bytes[end - 1] != UInt8(ascii: "/") { depth += 1 }
        // `<plist>` and the leaf itself are elements too.
        if depth > ParserLimits.nesting + 2 { return false }
      }
      at = end + 1
    }
    return true
  }

  /// Whether a binary list is free of cycles, shallow, and unfolds to a tree of limited size.
  ///
  /// Layout: "CFBinaryPList.c" of CoreFoundation.
  static func admitsBinary(_ bytes: [UInt8]) -> Bool {
    guard var list = BinaryObjects(bytes) else { return false }
    return list.measure(list.top, level: 1) != nil
  }
}

/// The object graph of a binary property list, for measuring without decoding.
private struct BinaryObjects {
  private struct Object {
    var references: Range<Int>
    var size: Int
  }
  struct Measure {
    var height: Int
    var weight: Int
  }

  let top: Int
  private let bytes: [UInt8]
  private let referenceSize: Int
  private var objects: [Object] = []
  private var measures: [Measure?]

  init?(_ bytes: [UInt8]) {
    let trailer = bytes.count - 32
    guard trailer >= 8, bytes.starts(with: Array("bplist0".utf8)) else { return nil }
    let (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
    guard (1...8).contains(offsetSize), (1...8).contains(referenceSize),
      let count = Self.integer(bytes, at: trailer + 8, size: 8), count > 0, count <= bytes.count,
      let top = Self.integer(bytes, at: trailer + 16, size: 8), top < count,
      let table = Self.integer(bytes, at: trailer + 24, size: 8), table <= trailer,
      count <= (trailer - table) / offsetSize
    else { return nil }
    self.bytes = bytes
    self.referenceSize = referenceSize
    self.top = top
    measures = Array(repeating: nil, count: count)
    var total = 0
    for index in 0..<count {
      guard let offset = Self.integer(bytes, at: table + index * offsetSize, size: offsetSize),
        offset < table,
        let object = object(at: offset, end: table)
      else { return nil }
      // Objects do not overlap in a well-formed file: together they fit between its magic and its table.
      total += object.size
      guard total <= table - 8 else { return nil }
      objects.append(object)
    }
  }

  /// The height and unfolded weight of an object; nil when a limit is exceeded, as always in a cycle.
  mutating func measure(_ index: Int, level: Int) -> Measure? {
    if let known = measures[index] { return known }
    guard level <= ParserLimits.nesting + 1 else { return nil }
    let object = objects[index]
    // Even an empty object costs the decoder time and memory.
    var result = Measure(height: 1, weight: object.size + 16)
    for at in stride(from: object.references.lowerBound, to: object.references.upperBound, by: referenceSize)
    {
      guard let child = Self.integer(bytes, at: at, size: referenceSize), child < objects.count,
        let inner = measure(child, level: level + 1)
      else { return nil }
      result.height = max(result.height, inner.height + 1)
      result.weight += inner.weight
      guard result.height <= ParserLimits.nesting + 1, result.weight <= ParserLimits.unfoldedBytes else {
        return nil
      }
    }
    measures[index] = result
    return result
  }

  private func object(at offset: Int, end: Int) -> Object? {
    let marker = bytes[offset]
    let low = Int(marker & 0x0F)
    var start = offset + 1
    func fixed(_ size: Int) -> Object? {
      size <= end - start ? Object(references: 0..<0, size: start + size - offset) : nil
    }
    switch marker >> 4 {
    case 0x0: return fixed(0)
    case 0x1, 0x2: return low <= 4 ? fixed(1 << low) : nil
    case 0x3: return fixed(8)
    case 0x8: return fixed(low + 1)
    default: break
    }
    var count = low
    if low == 0x0F {
      guard start < end, bytes[start] >> 4 == 0x1, bytes[start] & 0x0F <= 3 else { return nil }
      let size = 1 << Int(bytes[start] & 0x0F)
      guard let value = Self.integer(bytes, at: start + 1, size: size), value <= end else { return nil }
      start += 1 + size
      count = value
    }
    switch marker >> 4 {
    case 0x4, 0x5, 0x7: return fixed(count)
    case 0x6: return fixed(count * 2)
    case 0xA, 0xB, 0xC, 0xD:
      let length = count * referenceSize * (marker >> 4 == 0xD ? 2 : 1)
      guard var object = fixed(length) else { return nil }
      object.references = start..<start + length
      return object
    default: return nil
    }
  }

  /// An unsigned big-endian integer that fits an `Int`.
  private static func integer(_ bytes: [UInt8], at offset: Int, size: Int) -> Int? {
    guard offset >= 0, size <= bytes.count, offset <= bytes.count - size else { return nil }
    var value: UInt64 = 0
    for byte in bytes[offset..<offset + size] { value = value << 8 | UInt64(byte) }
    return Int(exactly: value)
  }
}
