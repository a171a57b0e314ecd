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

/// An icon of these elements.
func icns(_ elements: [(type: String, data: [UInt8])]) -> [UInt8] {
  let body = elements.flatMap { utf8($0.type) + big32($0.data.count + 8) + $0.data }
  return utf8("icns") + big32(body.count + 8) + body
}

/// The beginning of a PNG, as far as its size.
func pngHeader(_ width: Int, _ height: Int) -> [UInt8] {
  hex("89504E47 0D0A1A0A 0000000D") + utf8("IHDR") + big32(width) + big32(height) + [8, 6, 0, 0, 0]
}

/// The beginning of a JP2 file: the boxes of the signature, the file type and the image header.
func jp2Header(_ width: Int, _ height: Int) -> [UInt8] {
  hex("0000000C 6A502020 0D0A870A 00000014 66747970 6A703220 00000000 6A703220")
    + hex("0000001E 6A703268 00000016 69686472") + big32(height) + big32(width)
}

/// The beginning of a JPEG 2000 codestream with a reference grid of these sides.
func codestreamHeader(_ width: Int, _ height: Int, left: Int = 0, top: Int = 0) -> [UInt8] {
  hex("FF4FFF51 002F 0000") + [width, height, left, top].flatMap { big32($0) }
}

/// Planes of one value each, compressed.
func planes(_ values: [UInt8], side: Int) -> [UInt8] {
  let count = side * side
  return values.flatMap { value -> [UInt8] in
    let runs = Array(repeating: [0xFF, value], count: count / 130)
    return (runs + Array(repeating: [0, value], count: count % 130)).flatMap { $0 }
  }
}

/// A resource fork with resources of some types.
func resourceFork(_ types: [(type: String, resources: [(number: Int, data: [UInt8])])]) -> [UInt8] {
  func big16(_ value: Int) -> [UInt8] {
    [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)]
  }
  var (data, list, references): ([UInt8], [UInt8], [UInt8]) = ([], big16(types.count - 1), [])
  for (type, resources) in types {
    list += utf8(type) + big16(resources.count - 1) + big16(2 + 8 * types.count + references.count)
    for resource in resources {
      references += big16(resource.number) + [0xFF, 0xFF] + big32(data.count) + big32(0)
      data += big32(resource.data.count) + resource.data
    }
  }
  let map =
    Array(repeating: 0, count: 24) + big16(28) + big16(28 + list.count + references.count) + list + references
  let header = [256, 256 + data.count, data.count, map.count].flatMap(big32)
  return header + Array(repeating: 0, count: 240) + data + map
}

/// A binary property list of an array of strings.
func textList(_ strings: [String]) -> [UInt8] {
  let references = (1...max(1, strings.count)).flatMap { [UInt8($0 >> 8), UInt8($0 & 255)] }
  let objects = strings.map { text -> [UInt8] in
    let isASCII = text.utf8.allSatisfy { $0 < 0x80 }
    let count = isASCII ? text.utf8.count : text.utf16.count
    let marker: UInt8 = isASCII ? 0x50 : 0x60
    let head = count < 15 ? [marker | UInt8(count)] : [marker | 15, 0x10, UInt8(count)]
    return head + (isASCII ? utf8(text) : utf16(text, bigEndian: true))
  }
  return binaryList([[0xA0 | UInt8(strings.count)] + (strings.isEmpty ? [] : references)] + objects)
}

/// A sidecar as macOS writes it, with extended attributes after the Finder info.
func appleDouble(_ flags: UInt16 = 0, attributes: [(name: String, value: [UInt8])]) -> [UInt8] {
  let names = attributes.map { utf8($0.name) + [0] }
  let headers = names.map { 11 + $0.count }.map { ($0 + 3) & ~3 }
  let start = 120 + headers.reduce(0, +)
  let end = start + attributes.map(\.value.count).reduce(0, +)
  var bytes =
    hex("00051607 00020000") + utf8("Mac OS X        ") + [0, 2]
    + [9, 50, end - 50, 2, end, 0].flatMap(big32) + finderRecord(flags) + [0, 0]
  bytes += utf8("ATTR") + [0, end, start, end - start, 0, 0, 0].flatMap(big32)
  bytes += [0, 0, 0, UInt8(attributes.count)]
  var at = start
  for (index, name) in names.enumerated() {
    let value = attributes[index].value
    bytes += big32(at) + big32(value.count) + [0, 0, UInt8(name.count)] + name
    bytes += Array(repeating: 0, count: headers[index] - 11 - name.count)
    at += value.count
  }
  return bytes + attributes.flatMap(\.value)
}
