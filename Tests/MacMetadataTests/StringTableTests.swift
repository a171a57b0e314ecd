import Testing

@testable import MacMetadata

@Suite struct StringTableTests {
  static let text = "/* Finder */\n\"Music\" = \"Müsik\";\n"

  @Test(arguments: [
    utf8(text), [0xEF, 0xBB, 0xBF] + utf8(text), [0xFF, 0xFE] + utf16(text),
    [0xFE, 0xFF] + utf16(text, bigEndian: true),
    utf16(text), utf16(text, bigEndian: true),
    utf8("\"Music\" = \"M") + [0x9F] + utf8("sik\";"), utf8("\"Music\" = \"M") + [0xFC] + utf8("sik\";"),
    utf8("Music = \"Müsik\";"), utf8("{ Music = \"M\\U00fcsik\"; }"), utf8("Music = old; Music = \"Müsik\";"),
    xml("<dict><key>Music</key><string>Müsik</string></dict>"),
    [0xFF, 0xFE]
      + utf16(
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?><plist><dict><key>Music</key><string>Müsik</string></dict></plist>"
      ),
    binaryList([[0xD1, 0, 1, 0, 2], ascii("Music"), [0x65] + utf16("Müsik", bigEndian: true)]),
  ])
  func stringTable_inEveryEncoding_isSame(bytes: [UInt8]) {
    #expect(StringTable.parse(bytes) == ["Music": "Müsik"])
  }

  @Test(arguments: [
    [], utf8("  \n"), utf8("/* x */\n\n"), utf8("// x"), [0xFF, 0xFE], [0xFF, 0xFE] + utf16("/* x */\n"),
  ])
  func stringTable_withoutEntries_isEmpty(bytes: [UInt8]) {
    #expect(StringTable.parse(bytes) == [:])
  }

  @Test(
    arguments: [
      (0x80, "Ä"), (0x8A, "ä"), (0x9F, "ü"), (0xA7, "ß"), (0xCA, "\u{A0}"), (0xDB, "€"), (0xF0, "\u{F8FF}"),
      (0xFF, "ˇ"),
    ] as [(UInt8, String)])
  func macRomanBytes_areDecoded(byte: UInt8, character: String) {
    #expect(StringTable.parse(utf8("a = \"") + [0x8E, byte] + utf8("\";")) == ["a": "é" + character])
  }

  @Test func keyWithoutValue_standsForItself() {
    #expect(StringTable.parse(utf8("\"a b\"; c;")) == ["a b": "a b", "c": "c"])
  }

  @Test func stringValues_areUnescapedButNotSanitized() {
    let bytes = utf8(#"a = "../x:y"; b = "1\n2\"\\\0"; c = "\u00e9";"#)
    #expect(StringTable.parse(bytes) == ["a": "../x:y", "b": "1\n2\"\\\0", "c": "u00e9"])
  }

  @Test func nonStringValues_areOmitted() {
    #expect(StringTable.parse(utf8("a = (1, 2); b = c; d = <00ff>; e = {f = g;};")) == ["b": "c"])
    #expect(
      StringTable.parse(xml("<dict><key>a</key><true/><key>b</key><string>c</string></dict>")) == ["b": "c"])
  }

  @Test(arguments: [
    utf8("a = b"), utf8("a = \"b;"), utf8("(a, b)"), utf8("word"), utf8("bplist00"),
    utf8("<plist><dict><key>a</key></dict></plist>"),
    [0xFF, 0xFE, 0x41], [0xFF, 0xFE, 0x00, 0xD8], Array(sampleBinaryTable.dropLast()),
    Array(repeating: UInt8(ascii: " "), count: ParserLimits.inputBytes + 1),
  ])
  func malformedStringTable_isNil(bytes: [UInt8]) {
    #expect(StringTable.parse(bytes) == nil)
  }

  @Test(arguments: [
    #""a" = "\UD83D";"#, "\"a\" = \"\\😀\";", "a = <中>;", "<plist><string>&#xD800;</string></plist>",
  ])
  func brokenCharacters_doNotCrash(text: String) {
    _ = StringTable.parse(utf8(text))
  }

  @Test func localizationTable_keepsLanguagesOnly() {
    let body = "<key>CFBundleName</key><string>Notizen</string><key>x</key><true/>"
    let bytes = xml(
      "<dict><key>de</key><dict>\(body)</dict><key>pt_PT</key><dict/><key>LocProvenance</key><dict>\(body)</dict><key>v</key><integer>1</integer></dict>"
    )
    #expect(LocalizationTable.parse(bytes) == ["de": ["CFBundleName": "Notizen"], "pt_PT": [:]])
    #expect(LocalizationTable.parse(utf8("(a)")) == nil)
  }
}
