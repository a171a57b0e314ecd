import Testing

@testable import MacMetadata

@Suite struct LinuxMetadataTests {
  @Test func hiddenList_matchesNamesWithAndWithoutCarriageReturn() {
    let names = HiddenList.parse(utf8("bin\ndev\r\n\n a *\n#x") + [0x0A, 0xFF])
    let expected: Set<[UInt8]> = [utf8("bin"), utf8("dev"), utf8("dev\r"), utf8(" a *"), utf8("#x"), [0xFF]]
    #expect(names == expected)
    #expect(HiddenList.parse([]) == [])
    #expect(HiddenList.parse(Array(repeating: 0x61, count: ParserLimits.inputBytes + 1)) == nil)
  }

  @Test(arguments: [
    (#"XDG_DESKTOP_DIR="$HOME/Schreibtisch""#, UserDirectory.Location.inHome(utf8("Schreibtisch"))),
    (#"  XDG_DESKTOP_DIR = "/srv/desk/"  "#, .absolute(utf8("/srv/desk"))),
    (#"XDG_DESKTOP_DIR="$HOME/a \"b\" \$c\\""#, .inHome(utf8(#"a "b" $c\"#))),
    (#"XDG_DESKTOP_DIR="$HOME/""#, nil), (#"XDG_DESKTOP_DIR="$HOME""#, nil),
    (#"XDG_DESKTOP_DIR="$HOMEX/a""#, nil),
    (#"XDG_DESKTOP_DIR="relative""#, nil), (#"#XDG_DESKTOP_DIR="$HOME/x""#, nil),
    (#"XDG_DESKTOP_DIR=$HOME/x"#, nil),
    (#"XDG_OTHER_DIR="$HOME/x""#, nil), ("no equals sign", nil),
  ])
  func userDirectoryLine_isParsedLikeShell(line: String, expected: UserDirectory.Location?) {
    let bytes = utf8("# comment\n\(line)\nXDG_MUSIC_DIR=\"$HOME/Musik\"\n")
    var all: [UserDirectory: UserDirectory.Location] = [.music: .inHome(utf8("Musik"))]
    all[.desktop] = expected
    #expect(UserDirectory.parse(bytes) == all)
  }

  @Test func userDirectory_isSetByItsLastLine() {
    let disabled = utf8("XDG_DESKTOP_DIR=\"$HOME/a\"\nXDG_DESKTOP_DIR=\"$HOME/\"\n")
    #expect(UserDirectory.parse(disabled) == [:])
  }

  @Test(arguments: [false, true])
  func messageCatalog_inEitherByteOrder_translates(bigEndian: Bool) throws {
    let messages =
      UserDirectory.allCases.map { ($0.defaultName, "»\($0.defaultName)«") } + [
        ("one\0many", "eins\0viele"), ("none", ""),
      ]
    let found = try #require(MessageCatalog(catalog(messages, bigEndian: bigEndian)))
    for directory in UserDirectory.allCases {
      #expect(found.translation(of: directory.defaultName) == "»\(directory.defaultName)«")
    }
    #expect(found.translation(of: "one") == "eins")
    for absent in ["", "none", "Trash", "Desk", "Desktops"] { #expect(found.translation(of: absent) == nil) }
  }

  @Test func messageCatalog_inOtherCharsetOrTruncated_isRejected() {
    #expect(MessageCatalog(catalog([("a", "b")], charset: "ISO-8859-1")) == nil)
    #expect(MessageCatalog(catalog([("a", "b")], charset: "utf-8")) != nil)
    let whole = catalog([("a", "b")])
    for length in 0..<60 { #expect(MessageCatalog(Array(whole.prefix(length))) == nil) }
  }

  @Test func desktopEntryNames_areReadFromMainGroupOnly() {
    let entry = utf8(
      "# comment\nName=before\n[Desktop Entry]\nType=Application\nName = Files\nName[de]=Dateien\\sund\\\\mehr\nNames=x\nGenericName[fr]=y\n[Desktop Action new]\nName=New\n"
    )
    #expect(DesktopEntry.names(entry) == ["": "Files", "de": "Dateien und\\mehr"])
    #expect(DesktopEntry.names(utf8("Name=x\n")) == nil)
    #expect(DesktopEntry.names(utf8("[Desktop Entry]\n")) == [:])
    #expect(DesktopEntry.names([0xff, 0xfe]) == nil)
    // A name that begins with a combining mark, and a backslash that is escaped before one.
    let marked = utf8("[Desktop Entry]\nName=\u{301}a\\\\\u{301}b\\n\u{301}\r\nName[de]=\u{301}\n")
    #expect(DesktopEntry.names(marked) == ["": "\u{301}a\\\u{301}b\n\u{301}", "de": "\u{301}"])
  }
}
