import Glibc
import Testing

@testable import DisplayNames

/// Normalization and case folding, compared with the Unicode Character Database of Debian's package unicode-data.
@Suite struct UnicodeTests {
  private static let directory = "/usr/share/unicode"

  /// The lines of a file, without comments; compressed files too.
  private static func lines(_ file: String) -> [Substring] {
    guard let pipe = popen("cd \(directory) && { cat \(file) 2>/dev/null || bzcat \(file).bz2; }", "r") else {
      return []
    }
    defer { pclose(pipe) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&buffer, 1, buffer.count, pipe), count > 0 { bytes += buffer[..<count] }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").filter { $0.first != "#" }
  }

  private static func scalars(_ field: Substring) -> [UInt32] {
    field.split(separator: " ").map { UInt32($0, radix: 16)! }
  }

  private static func name(_ scalars: [UInt32]) -> Name {
    var text = String.UnicodeScalarView()
    for scalar in scalars { text.append(Unicode.Scalar(scalar)!) }
    return Name(String(text))
  }

  /// Whether the tables know the scalars: they are of Unicode 15.0, and what was assigned before never changes.
  private static func areKnown(_ scalars: [UInt32]) -> Bool {
    scalars.allSatisfy {
      Unicode.Scalar($0)!.properties.age.map { $0.major <= 15 && $0.minor == 0 || $0.major < 15 } ?? false
    }
  }

  private func composed(_ name: Name) -> Name {
    NormalForm.composed(name.bytes.span).map { Name($0) } ?? name
  }

  private func caseless(_ name: Name) -> Name {
    NormalForm.caseless(name.bytes.span).map { Name($0) } ?? name
  }

  @Test(.unicodeDatabase) func composedForm_agreesWithNormalizationTest() throws {
    var listed: Set<UInt32> = []
    var count = 0
    var part: Substring = ""
    for line in Self.lines("NormalizationTest.txt") {
      if line.first == "@" {
        part = line.prefix { $0 != " " }
        continue
      }
      let columns = line.split(separator: ";", maxSplits: 5).prefix(5).map(Self.scalars)
      if part == "@Part1" { listed.insert(columns[0][0]) }
      guard columns.allSatisfy(Self.areKnown) else { continue }
      let names = columns.map(Self.name)
      for name in names[..<3] { #expect(composed(name) == names[1], "\(line)") }
      for name in names[3...] { #expect(composed(name) == names[3], "\(line)") }
      count += 1
    }
    #expect(count > 18_000)
    for scalar in 1...UInt32(0x10_ffff) where Unicode.Scalar(scalar) != nil && !listed.contains(scalar) {
      if NormalForm.composed(Self.name([scalar]).bytes.span) != nil { Issue.record("\(scalar) is changed") }
    }
  }

  @Test(.unicodeDatabase) func caseFolding_agreesWithCaseFoldingTable() {
    var expected: [UInt32: [UInt32]] = [:]
    for line in Self.lines("CaseFolding.txt") {
      let fields = line.split(separator: ";").map { $0.drop { $0 == " " } }
      if fields[1] == "C" || fields[1] == "F" {
        expected[UInt32(fields[0], radix: 16)!] = Self.scalars(fields[2])
      }
    }
    #expect(expected.count >= 1530)
    let data = UnicodeData.shared
    for scalar in 0...UInt32(0x10_ffff) where Unicode.Scalar(scalar) != nil {
      let folding = data[scalar].folding.map { data.pool[Int($0)] }
      if folding != expected[scalar] ?? [], folding != [] || Self.areKnown([scalar]) {
        Issue.record("\(scalar) is folded to \(folding)")
      }
    }
  }

  /// The standard library compares strings by canonical equivalence.
  @Test func forms_ofAnyName_areStableAndEquivalent() {
    var random = SplitMix(state: 11)
    let marks = Array(0x300...0x36f as ClosedRange<UInt32>)
    for _ in 0..<3000 {
      let scalars = (0..<Int(random.next() % 12)).map { _ -> UInt32 in
        switch random.next() % 4 {
        case 0: UInt32(random.next() % 0x250)
        case 1: marks[Int(random.next() % UInt64(marks.count))]
        case 2: UInt32(0x1100 + random.next() % 0x1000)
        default: UInt32(random.next() % 0xd800)
        }
      }
      let name = Self.name(scalars)
      let (composed, caseless) = (composed(name), caseless(name))
      #expect(composed.text! == name.text! && self.composed(composed) == composed, "\(scalars)")
      #expect(self.caseless(caseless) == caseless && self.caseless(composed) == caseless, "\(scalars)")
      let damaged = Name(
        name.bytes.map { random.next() % 8 == 0 ? UInt8(truncatingIfNeeded: random.next()) : $0 })
      if damaged.text == nil { #expect(self.composed(damaged) == damaged) }
      _ = self.caseless(damaged)
    }
  }

  @Test(arguments: [
    ("Straße", "STRASSE"), ("Straße", "STRAẞE"), ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"), ("ﬁle", "FILE"), ("é", "E\u{301}"),
    ("Å", "å"), ("\u{212b}", "A\u{30a}"), ("한글", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
    ("i\u{307}", "İ"), ("\u{1fb3}", "Αι"), ("\u{345}\u{301}", "\u{301}\u{399}"), ("ŉ", "ʼN"),
    ("README", "readme"),
    ("a\u{323}\u{307}", "A\u{307}\u{323}"),
  ])
  func caselessForm_ofMatches_isEqual(a: Name, b: Name) { #expect(caseless(a) == caseless(b)) }

  @Test(arguments: [("ı", "i"), ("İ", "i"), ("e", "é"), ("ﬁ", "f"), ("\u{301}a", "á"), ("ss", "s")])
  func caselessForm_ofOthers_differs(a: Name, b: Name) { #expect(caseless(a) != caseless(b)) }

  @Test(
    arguments: [[0xff], [0x41, 0xc3], [0x45, 0xcc, 0x81, 0xed, 0xa0, 0x80], [0xc1, 0x81, 0x41]] as [[UInt8]])
  func nameThatIsNotUTF8_hasNoOtherForm(bytes: [UInt8]) {
    #expect(NormalForm.composed(bytes.span) == nil && NormalForm.caseless(bytes.span) == nil)
  }

  @Test func asciiTest_findsAnyOtherByte() {
    func isASCII(_ bytes: [UInt8]) -> Bool { bytes.span.isASCII }
    for length in 0..<40 {
      var bytes = [UInt8](repeating: 0x7f, count: length)
      #expect(isASCII(bytes))
      for index in bytes.indices {
        bytes[index] = 0x80
        #expect(!isASCII(bytes))
        bytes[index] = 0
      }
    }
  }
}

extension Trait where Self == ConditionTrait {
  fileprivate static var unicodeDatabase: Self {
    .enabled(
      if: access("/usr/share/unicode/CaseFolding.txt", R_OK) == 0
        || getenv("DISPLAYFS_REQUIRE_PROGRAMS") != nil,
      "There is no Unicode Character Database here. Mount/setup --tests installs it.")
  }
}
