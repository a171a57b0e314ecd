/// What normalization and case folding must know of a Unicode scalar, from ``UnicodeTables``.
///
/// The standard library normalizes strings only for its own comparisons, and takes 20 to 60 µs for a name; these tables take one.
/// (33 scalars, Linux 6.18, AMD EPYC, 2026-11-25)
struct UnicodeData: Sendable {
  static let shared = UnicodeData()

  struct Record {
    /// The canonical combining class.
    var combiningClass: UInt8 = 0
    /// Whether a string with this scalar may not be in normalization form C. (NFC_Quick_Check)
    var mayChangeWhenComposed = false
    /// The scalars of the full canonical decomposition, and of the case folding, in `pool`; empty where the scalar stays itself.
    var decomposition: Range<UInt16> = 0..<0
    var folding: Range<UInt16> = 0..<0
  }

  /// The block of each 256 scalars. Block 0 is that of scalars without a record.
  private var blocks: [UInt8]
  /// The record of each scalar of each block. Record 0 is that of scalars that have no such properties.
  private var indices: [UInt16]
  private var records = [Record()]
  private(set) var pool: [UInt32] = []
  private var compositions: [UInt64: UInt32] = [:]

  private static let blockSize = 256

  subscript(scalar: UInt32) -> Record {
    let block = Int(scalar) / Self.blockSize
    guard block < blocks.count, blocks[block] != 0 else { return records[0] }
    return records[Int(indices[Int(blocks[block]) * Self.blockSize + Int(scalar) % Self.blockSize])]
  }

  /// The scalar that two scalars compose to; nil where they stay two.
  func composition(_ first: UInt32, _ second: UInt32) -> UInt32? {
    if let hangul = Hangul.composition(first, second) { return hangul }
    return compositions[UInt64(first) << 32 | UInt64(second)]
  }

  // MARK: Reading the tables

  private init() {
    blocks = [UInt8](repeating: 0, count: 0x11_0000 / Self.blockSize)
    indices = [UInt16](repeating: 0, count: Self.blockSize)
    var parts: [UInt32: [UInt32]] = [:]
    var last: UInt32 = 0
    Self.forEachEntry(UnicodeTables.decompositions) { entry in
      last = entry.first == 0 ? last + 1 : entry.first
      parts[last] = entry.values
      if entry.isExcluded || entry.values.count == 1 {
        change(last) { $0.mayChangeWhenComposed = true }
      } else {
        compositions[UInt64(entry.values[0]) << 32 | UInt64(entry.values[1])] = last
        change(entry.values[1]) { $0.mayChangeWhenComposed = true }
      }
    }
    for jamo in Hangul.composable { change(jamo) { $0.mayChangeWhenComposed = true } }
    func full(_ scalar: UInt32) -> [UInt32] { parts[scalar].map { $0.flatMap(full) } ?? [scalar] }
    for scalar in parts.keys {
      let range = store(full(scalar))
      change(scalar) { $0.decomposition = range }
    }
    Self.forEachEntry(UnicodeTables.combiningClasses) { entry in
      for scalar in entry.scalars {
        change(scalar) {
          $0.combiningClass = UInt8(entry.values[0])
          $0.mayChangeWhenComposed = true
        }
      }
    }
    Self.forEachEntry(UnicodeTables.caseFoldings) { entry in
      for scalar in entry.scalars {
        let range = store(entry.values.map { $0 + scalar - entry.first })
        change(scalar) { $0.folding = range }
      }
    }
  }

  private mutating func store(_ scalars: [UInt32]) -> Range<UInt16> {
    let start = UInt16(pool.count)
    pool += scalars
    return start..<UInt16(pool.count)
  }

  private mutating func change(_ scalar: UInt32, _ body: (inout Record) -> Void) {
    let block = Int(scalar) / Self.blockSize
    if blocks[block] == 0 {
      blocks[block] = UInt8(indices.count / Self.blockSize)
      indices += [UInt16](repeating: 0, count: Self.blockSize)
    }
    let position = Int(blocks[block]) * Self.blockSize + Int(scalar) % Self.blockSize
    if indices[position] == 0 {
      indices[position] = UInt16(records.count)
      records.append(Record())
    }
    body(&records[Int(indices[position])])
  }

  private struct Entry {
    /// The scalars before the mark.
    var scalars: StrideThrough<UInt32> { stride(from: first, through: last, by: step) }
    /// 0 for the scalar after that of the entry before.
    var first: UInt32 = 0
    var last: UInt32 = 0
    var step = 1
    var isExcluded = false
    var values: [UInt32] = []
  }

  /// Byte by byte: as text this would take ten times as long, and delay the first name that needs it.
  private static func forEachEntry(_ table: StaticString, _ body: (Entry) -> Void) {
    table.withUTF8Buffer { bytes in
      var entry = Entry()
      var number: UInt32 = 0
      var isRange = false
      for byte in bytes {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"):
          number = number << 4 | UInt32(byte < 0x40 ? byte - 0x30 : byte - 0x37)
          continue
        case UInt8(ascii: "-"):
          entry.first = number
          isRange = true
        case UInt8(ascii: "/"):
          entry.last = number
          entry.step = 2
        case UInt8(ascii: ":"), UInt8(ascii: "!"):
          if entry.step == 1 { entry.last = number }
          if !isRange { entry.first = number }
          entry.isExcluded = byte == UInt8(ascii: "!")
        case UInt8(ascii: ","): entry.values.append(number)
        default:
          entry.values.append(number)
          body(entry)
          entry = Entry()
          isRange = false
        }
        number = 0
      }
      entry.values.append(number)
      body(entry)
    }
  }
}

/// The syllables of Korean, whose decompositions are computed. (The Unicode Standard, section 3.12)
enum Hangul {
  private static let (syllables, leading, vowels, trailing): (UInt32, UInt32, UInt32, UInt32) = (
    0xac00, 0x1100, 0x1161, 0x11a7
  )
  private static let (leadingCount, vowelCount, trailingCount): (UInt32, UInt32, UInt32) = (19, 21, 28)

  /// The scalars that compose with one before them.
  static let composable =
    Array(vowels..<vowels + vowelCount) + Array(trailing + 1..<trailing + trailingCount)

  static func isSyllable(_ scalar: UInt32) -> Bool {
    scalar >= syllables && scalar < syllables + leadingCount * vowelCount * trailingCount
  }

  static func decompose(_ syllable: UInt32, into scalars: inout [UInt32]) {
    let index = syllable - syllables
    scalars.append(leading + index / (vowelCount * trailingCount))
    scalars.append(vowels + index / trailingCount % vowelCount)
    if index % trailingCount > 0 { scalars.append(trailing + index % trailingCount) }
  }

  static func composition(_ first: UInt32, _ second: UInt32) -> UInt32? {
    if first >= leading, first < leading + leadingCount, second >= vowels, second < vowels + vowelCount {
      return syllables + ((first - leading) * vowelCount + second - vowels) * trailingCount
    }
    if isSyllable(first), (first - syllables) % trailingCount == 0, second > trailing,
      second < trailing + trailingCount
    {
      return first + second - trailing
    }
    return nil
  }
}
