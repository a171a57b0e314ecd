import Testing

@testable import DisplayNames

@Suite struct LocalizedNameTests {
  @Test(arguments: [
    ("Schreibtisch", "Schreibtisch"), ("Biblioth\u{65}\u{300}que", "Biblioth\u{E8}que"), ("A/B", "A:B"),
    ("A///B//", "A:B:"), ("A:B", "A:B"), ("Hj\u{E6}lpe\u{AD}programmer", "Hj\u{E6}lpeprogrammer"),
    ("Webov\u{E9}\u{A0}\u{FA}\u{10D}tenky", "Webov\u{E9}\u{A0}\u{FA}\u{10D}tenky"), ("a.b", "a.b"),
    ("a..", "a.."),
    ("نیم\u{200C}فاصله", "نیم\u{200C}فاصله"), (" a ", " a "), ("/", ":"),
    ("\u{1112}\u{1161}\u{11AB}", "\u{D55C}"),
  ])
  func sanitize_ofValidValue_givesName(value: String, expected: String) {
    #expect(LocalizedName.sanitize(value, realName: "X") == Name(expected))
  }

  @Test(
    arguments: [
      "", " ", "\t", "\u{A0}\u{3000}", "\u{AD}", "\u{200D}", "\u{3164}", ".", "..", ".vanish",
      "\u{AD}.vanish",
      "../../etc/passwd", "a\u{0}b", "a\nb", "a\rb", "a\u{7F}", "a\u{85}", "a\u{2028}b", "a\u{2029}b",
      "\u{FEFF}a",
      "a\u{200B}b", "a\u{2060}b", "a\u{E0041}", String(repeating: "a", count: 256),
      String(repeating: "ä", count: 128),
      String(repeating: "e\u{301}", count: 5000),
    ]
      + [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069]
      .compactMap { UnicodeScalar($0) }.map { "a\($0)b" })
  func sanitize_ofDangerousValue_givesNil(value: String) {
    #expect(LocalizedName.sanitize(value, realName: "X") == nil)
  }

  @Test func sanitize_limitsLengthOfResult() {
    #expect(LocalizedName.sanitize(String(repeating: "a", count: 255), realName: "X") != nil)
    #expect(
      LocalizedName.sanitize(String(repeating: "e\u{301}", count: 127), realName: "X")?.bytes.count == 254)
    #expect(LocalizedName.sanitize("a" + String(repeating: "/", count: 300), realName: "X") == "a:")
  }

  @Test func sanitize_forHiddenEntry_allowsLeadingPeriod() {
    #expect(LocalizedName.sanitize(".Papierkorb", realName: ".Trash") == ".Papierkorb")
    #expect(LocalizedName.sanitize("..", realName: ".Trash") == nil)
  }
}

@Suite struct BundleNameTests {
  private static let rechner = BundleNames(displayName: "Rechner")

  @Test func unrenamedApplication_hasLocalizedName() {
    let declared = BundleNames(displayName: "Calculator", name: "Calc")
    #expect(BundleName.localized("Calculator.app", declared: declared, localized: Self.rechner) == "Rechner")
    #expect(BundleName.localized("Calculator.APP", declared: declared, localized: Self.rechner) == "Rechner")
    #expect(
      BundleName.localized("Calculator.app", declared: declared, localized: BundleNames(name: "Rechner"))
        == "Rechner")
  }

  @Test func bundleName_replacesMissingDisplayName() {
    #expect(
      BundleName.localized(
        "Calculator.app", declared: BundleNames(name: "Calculator"), localized: Self.rechner)
        == "Rechner")
    #expect(
      BundleName.localized(
        "Calculator.app", declared: BundleNames(displayName: " ", name: "Calculator"), localized: Self.rechner
      )
        == "Rechner")
  }

  @Test(arguments: [
    BundleNames(displayName: "Chess"), BundleNames(displayName: "Chess", name: "Renamed by me"),
    BundleNames(),
    BundleNames(name: "Chess"), BundleNames(displayName: "renamed by me"),
  ])
  func renamedApplication_hasNoLocalizedName(declared: BundleNames) {
    #expect(BundleName.localized("Renamed by me.app", declared: declared, localized: Self.rechner) == nil)
  }

  @Test func bundleName_isComparedAfterNormalization() {
    let declared = BundleNames(displayName: "Caf\u{E9}")
    #expect(BundleName.isOriginal("Cafe\u{301}.app", declared: declared))
    #expect(BundleName.isOriginal("Caf\u{E9}.app", declared: declared))
  }

  @Test func localizedName_withoutUsableTranslation_isNil() {
    let declared = BundleNames(displayName: "X")
    for value in ["", "  ", "..", "a\u{202E}b", "photo.jpg", "Rechner.app"] {
      #expect(
        BundleName.localized("X.app", declared: declared, localized: BundleNames(displayName: value)) == nil)
    }
    #expect(
      BundleName.localized("X.app", declared: declared, localized: BundleNames(displayName: " ", name: "Y"))
        == "Y")
  }

  @Test(arguments: [
    ("X.dext", true), ("X.lpdf", true), ("X.wdgt", true), ("X.rtfd", false), ("X", false), (".app", false),
  ])
  func isLocalizable_isTrueForSomeBundleTypesOnly(name: String, expected: Bool) {
    let bytes = Array(name.utf8)
    #expect(BundleName.isLocalizable(bytes.span) == expected)
  }

  @Test func bundleNames_preferValuesForMacOS() {
    let info = ["CFBundleDisplayName": "A", "CFBundleDisplayName-macos": "B", "CFBundleName": "C"]
    #expect(BundleNames { info[$0] } == BundleNames(displayName: "B", name: "C"))
  }
}

@Suite struct LocalizedDirectoryTests {
  private let builtIn: (Name) -> String? = { $0 == "Music" ? "Musik" : $0 == "Movies" ? "Filme" : nil }

  @Test func markedFolder_isNamedByVolumeThenByBuiltInTable() {
    #expect(
      LocalizedDirectory.nameOfMarked("Music", volumeTable: ["Music": "Tonkunst"], builtIn: builtIn)
        == "Tonkunst")
    #expect(
      LocalizedDirectory.nameOfMarked("Movies", volumeTable: ["Music": "x"], builtIn: builtIn) == "Filme")
    #expect(LocalizedDirectory.nameOfMarked("Music", volumeTable: nil, builtIn: builtIn) == "Musik")
    #expect(
      LocalizedDirectory.nameOfMarked("Music", volumeTable: ["Music": "../x"], builtIn: builtIn) == "Musik")
  }

  @Test func markedFolder_withoutTableEntry_keepsItsName() {
    #expect(LocalizedDirectory.nameOfMarked("Tunes", volumeTable: [:], builtIn: builtIn) == nil)
    #expect(
      LocalizedDirectory.nameOfMarked(Name([0xff]), volumeTable: ["\u{FFFD}": "x"], builtIn: builtIn) == nil)
  }

  @Test func selfLocalizedDirectory_isNamedByItsTableOrStem() {
    let name: Name = "Release Notes.localized"
    let table = ["Release Notes": "Versionshinweise"]
    #expect(LocalizedDirectory.nameOfSelfLocalized(name, strings: table) == "Versionshinweise")
    #expect(LocalizedDirectory.nameOfSelfLocalized(name, strings: [:]) == "Release Notes")
    #expect(
      LocalizedDirectory.nameOfSelfLocalized("Evil.localized", strings: ["Evil": "../../etc/passwd"])
        == "Evil")
  }

  @Test(arguments: [
    "Release Notes", ".localized", "..localized", "...localized", "X.Localized", "localized", "X.localized ",
  ])
  func nameOfSelfLocalized_forOtherNames_isNil(name: String) {
    #expect(
      LocalizedDirectory.nameOfSelfLocalized(Name(name), strings: ["X": "Y", "": "Z", ".": "Q"]) == nil)
  }
}
