/// Bytes as the programs write them.
func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func utf16(_ text: String, bigEndian: Bool = false) -> [UInt8] {
  text.utf16.flatMap { bigEndian ? [UInt8($0 >> 8), UInt8($0 & 255)] : [UInt8($0 & 255), UInt8($0 >> 8)] }
}

func big32(_ value: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) } }

func hex(_ digits: String) -> [UInt8] {
  let values = digits.filter { $0 != " " }.compactMap(\.hexDigitValue)
  return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
}

func xml(_ body: String) -> [UInt8] {
  utf8(
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0">\(body)</plist>
    """)
}

/// A binary property list of these objects with references of two bytes. The first object is the top object.
func binaryList(_ objects: [[UInt8]]) -> [UInt8] {
  var bytes = utf8("bplist00")
  var table: [UInt8] = []
  for object in objects {
    table += big32(bytes.count)
    bytes += object
  }
  let start = bytes.count
  bytes += table + [0, 0, 0, 0, 0, 0, 4, 2]
  for value in [objects.count, 0, start] { bytes += [0, 0, 0, 0] + big32(value) }
  return bytes
}

func ascii(_ text: String) -> [UInt8] { [0x50 | UInt8(text.utf8.count)] + utf8(text) }

let sampleBinaryTable = binaryList([[0xD1, 0, 1, 0, 2], ascii("Music"), ascii("Musik")])

func finderRecord(_ flags: UInt16) -> [UInt8] {
  utf8("TEXTttxt") + [UInt8(flags >> 8), UInt8(flags & 255)] + Array(repeating: 0xA5, count: 22)
}

func appleDouble(_ flags: UInt16, extra: Int = 0) -> [UInt8] {
  hex("00051607 00020000") + utf8("Mac OS X        ") + [0, 2]
    + [9, 50, 32 + extra, 2, 82 + extra, 4].flatMap(big32)
    + finderRecord(flags) + Array(repeating: 0x11, count: extra) + [1, 2, 3, 4]
}

func netatalk(_ flags: UInt16) -> [UInt8] {
  let entries = [
    (9, 122, 32), (4, 154, 0), (8, 354, 16), (14, 370, 4), (0x8044_4556, 374, 0), (0x8049_4E4F, 382, 0),
    (0x8053_594E, 390, 0), (0x8053_567E, 398, 0),
  ]
  let bytes =
    hex("00051607 00020000") + utf8("Netatalk        ") + [0, 8]
    + entries.flatMap { big32($0.0) + big32($0.1) + big32($0.2) } + finderRecord(flags)
  return bytes + Array(repeating: 0, count: 402 - bytes.count)
}

func afpInfo(_ flags: UInt16) -> [UInt8] {
  utf8("AFP\0") + hex("00000100 00000000 80000000") + finderRecord(flags) + Array(repeating: 0, count: 13)
}

/// A catalog as msgfmt writes it.
func catalog(_ messages: [(String, String)], bigEndian: Bool = false, charset: String = "UTF-8") -> [UInt8] {
  let head = ("", "Project-Id-Version: x\nContent-Type: text/plain; charset=\(charset)\n")
  let pairs = ([head] + messages).sorted { $0.0.utf8.lexicographicallyPrecedes($1.0.utf8) }
  func word(_ value: Int) -> [UInt8] { bigEndian ? big32(value) : big32(value).reversed() }
  let strings = pairs.map { utf8($0.0) } + pairs.map { utf8($0.1) }
  var at = 28 + 8 * strings.count
  var table: [UInt8] = []
  for string in strings {
    table += word(string.count) + word(at)
    at += string.count + 1
  }
  return word(0x9504_12DE) + word(0) + word(pairs.count) + word(28) + word(28 + 8 * pairs.count) + word(0)
    + word(at)
    + table + strings.flatMap { $0 + [0] }
}
