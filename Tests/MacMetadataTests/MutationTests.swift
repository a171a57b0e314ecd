import Testing

@testable import MacMetadata

/// Sequence of SplitMix64: the same inputs on every machine.
struct SeededGenerator: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// Damaged input ends in a value or in nil, the same one each time. Seeds count up from 0, so a crash comes again at
/// the same input; a failed expectation names its seed.
@Suite struct MutationTests {
  struct Target: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var samples: [[UInt8]]
    var parse: @Sendable ([UInt8]) -> Bool
  }

  static let list = xml(
    "<dict><key>a</key><array><string>b&amp;</string><true/></array><key>c</key><integer>3</integer></dict>")
  static let oldStyle = utf8("/* c */ \"a\" = \"\\U00e9\\n😀\"; b = (c, {d = <00ff>;}); e;")
  static let stores = FinderInfoTests.stored(0x4000)

  static let targets: [Target] = [
    Target(
      testDescription: "property list",
      samples: [list, sampleBinaryTable, binaryList([[0xA2, 0, 1, 0, 2], [0x09], [0x10, 7]])]
    ) {
      PropertyListValue.parse($0) != nil
    },
    Target(
      testDescription: "string table",
      samples: [oldStyle, [0xFF, 0xFE] + utf16("\"ab\" = \"cé\";"), sampleBinaryTable]
    ) {
      StringTable.parse($0) != nil
    },
    Target(testDescription: "localization table", samples: [utf8("de = {a = b;}; LocProvenance = x;")]) {
      LocalizationTable.parse($0) != nil
    },
    Target(
      testDescription: "bundle",
      samples: [
        utf8(
          "{CFBundleName = a; UTExportedTypeDeclarations = ({UTTypeIdentifier = b; UTTypeConformsTo = (b);});}"
        )
      ]
    ) {
      guard let info = BundleInfo($0) else { return false }
      _ = PackageExtension.declared(by: [info, info], packageTypes: ["b"])
      return true
    },
    Target(testDescription: "finder info", samples: stores.map(\.1)) { bytes in
      var found = false
      for store in FinderInfo.Store.allCases where FinderInfo.decode(store: store, bytes: bytes) != nil {
        found = FinderInfo.setting(.isInvisible, to: true, store: store, in: bytes)?.count == bytes.count
      }
      return found
    },
    Target(testDescription: "AppleDouble", samples: [appleDouble(0), netatalk(0)]) { bytes in
      AppleDouble(bytes)?.entries.allSatisfy { $0.range.upperBound <= bytes.count } ?? false
    },
    Target(testDescription: "DOS attributes", samples: DOSAttributesTests.hiddenArchive) {
      DOSAttributes(samba: $0) != nil
    },
    Target(testDescription: "hidden list", samples: [utf8("a\nb\r\n\n")]) { HiddenList.parse($0) != nil },
    Target(
      testDescription: "desktop entry",
      samples: [utf8("[Desktop Entry]\nName=a\\sb\nName[de_AT] = c\n[x]\nName=d")]
    ) {
      DesktopEntry.names($0) != nil
    },
    Target(
      testDescription: "user directories",
      samples: [utf8("XDG_MUSIC_DIR=\"$HOME/a\\\"b\"\nXDG_DESKTOP_DIR=\"/x\"")]
    ) {
      UserDirectory.parse($0) != nil
    },
    Target(
      testDescription: "catalog",
      samples: [catalog([("Desktop", "Bureau")]), catalog([("a", "b")], bigEndian: true)]
    ) {
      MessageCatalog($0)?.translation(of: "Desktop") != nil
    },
  ]

  @Test(arguments: targets)
  func damagedInputNeverCrashes(target: Target) {
    for sample in target.samples where target.testDescription != "catalog" { #expect(target.parse(sample)) }
    for seed in UInt64(0)..<3000 {
      var generator = SeededGenerator(state: seed)
      guard let sample = target.samples.randomElement(using: &generator) else { continue }
      let damaged = Self.damaged(sample, &generator)
      let first = target.parse(damaged)
      #expect(target.parse(damaged) == first, "\(target.testDescription), seed \(seed)")
    }
  }

  static func damaged(_ sample: [UInt8], _ generator: inout SeededGenerator) -> [UInt8] {
    var bytes = sample
    for _ in 0..<Int.random(in: 1...6, using: &generator) where !bytes.isEmpty {
      let at = Int.random(in: 0..<bytes.count, using: &generator)
      switch Int.random(in: 0..<6, using: &generator) {
      case 0: bytes[at] = UInt8.random(in: 0...255, using: &generator)
      case 1: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      case 2: bytes[at] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &generator) ?? 0
      case 3: bytes.removeSubrange(at...)
      case 4: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: at)
      default:
        let length = min(bytes.count - at, Int.random(in: 1...16, using: &generator))
        bytes.insert(
          contentsOf: Array(bytes[at..<at + length]), at: Int.random(in: 0...bytes.count, using: &generator))
      }
    }
    return bytes
  }
}
