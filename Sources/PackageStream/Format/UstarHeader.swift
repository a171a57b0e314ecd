/// The 512-byte header block of POSIX ustar.
///
/// Values that do not fit a field are truncated or zero here; an extended header has them in full.
struct UstarHeader {
  var name: [UInt8]
  var size: Int64
  var type: UInt8
  var mode: UInt32 = 0o644
  var owner: UInt32 = 0
  var group: UInt32 = 0
  var modified = FileTime.epoch
  var linkName: [UInt8] = []
  var deviceMajor: UInt32 = 0
  var deviceMinor: UInt32 = 0

  init(name: [UInt8], size: Int64, type: UInt8) {
    self.name = name
    self.size = size
    self.type = type
  }

  static let largestSize: Int64 = 0o777_7777_7777
  static let largestOwner: UInt32 = 0o777_7777

  /// Whether a name needs no extended header: at most 100 bytes, all ASCII, which no program converts.
  static func fits(_ name: [UInt8]) -> Bool { name.count <= 100 && name.allSatisfy { $0 < 0x80 } }

  /// Whether a member with an ASCII path needs an extended header for its time at most. `./` and a trailing slash are added to
  /// the path.
  static func fitsPlain(pathLength: Int, size: Int64, owner: UInt32, group: UInt32) -> Bool {
    pathLength <= 97 && size <= largestSize && owner <= largestOwner && group <= largestOwner
  }

  static func fits(_ time: FileTime) -> Bool {
    time.nanoseconds == 0 && (0...largestSize).contains(time.seconds)
  }

  var bytes: [UInt8] {
    var block = [UInt8](repeating: 0, count: 512)
    func put(_ value: some Sequence<UInt8>, at offset: Int) {
      for (index, byte) in value.enumerated() { block[offset + index] = byte }
    }
    func put(_ value: Int64, at offset: Int, digits: Int) {
      var rest = value
      for index in (0..<digits).reversed() {
        block[offset + index] = 0x30 + UInt8(rest & 7)
        rest >>= 3
      }
    }
    put(name.prefix(100), at: 0)
    put(Int64(mode), at: 100, digits: 7)
    put(owner > Self.largestOwner ? 0 : Int64(owner), at: 108, digits: 7)
    put(group > Self.largestOwner ? 0 : Int64(group), at: 116, digits: 7)
    put(size > Self.largestSize ? 0 : size, at: 124, digits: 11)
    put((0...Self.largestSize).contains(modified.seconds) ? modified.seconds : 0, at: 136, digits: 11)
    put(repeatElement(0x20, count: 8), at: 148)
    block[156] = type
    put(linkName.prefix(100), at: 157)
    put("ustar\u{0}00".utf8, at: 257)
    put(Int64(deviceMajor), at: 329, digits: 7)
    put(Int64(deviceMinor), at: 337, digits: 7)
    put(Int64(block.reduce(0) { $0 + Int($1) }), at: 148, digits: 6)
    block[154] = 0
    return block
  }

  /// Parses a block's fields without validation. The caller encodes the result and compares it with the block.
  ///
  /// - Returns: nil when a numeric field is malformed.
  init?(parsing block: ArraySlice<UInt8>) {
    guard block.count == 512 else { return nil }
    let base = block.startIndex
    func text(_ offset: Int, _ length: Int) -> [UInt8] {
      Array(block[(base + offset)..<(base + offset + length)].prefix { $0 != 0 })
    }
    func number(_ offset: Int, _ digits: Int) -> Int64? {
      var value: Int64 = 0
      for byte in block[(base + offset)..<(base + offset + digits)] {
        guard byte >= 0x30, byte <= 0x37 else { return nil }
        value = value << 3 | Int64(byte - 0x30)
      }
      return value
    }
    guard let mode = number(100, 7), let owner = number(108, 7), let group = number(116, 7),
      let size = number(124, 11), let seconds = number(136, 11), let major = number(329, 7),
      let minor = number(337, 7)
    else { return nil }
    self.init(name: text(0, 100), size: size, type: block[base + 156])
    // Size and time have at most 33 bits and all other numbers at most 21, so no conversion truncates.
    self.mode = UInt32(mode)
    self.owner = UInt32(owner)
    self.group = UInt32(group)
    modified = FileTime(seconds: seconds, nanoseconds: 0)
    linkName = text(157, 100)
    deviceMajor = UInt32(major)
    deviceMinor = UInt32(minor)
  }
}
