import Testing

@testable import DisplayNames

/// The text shown for `name` under `rule`.
private func shown(
  _ name: String, _ mode: ExtensionMode, _ kind: EntryKind = .file, flag: Bool = false
) -> String {
  let bytes = Array(name.utf8)
  let rule = ExtensionRule(mode: mode)
  guard let length = rule.stemLength(of: bytes.span, kind: kind, finderFlagHidden: flag) else { return name }
  return String(validating: bytes.prefix(length), as: UTF8.self) ?? "?"
}

@Suite struct FileExtensionTests {
  @Test(arguments: [
    ("a.txt", "a"), ("foo.TXT", "foo"), ("archive.tar.gz", "archive.tar"), ("v1.2", "v1"), ("a.1", "a"),
    (".a.txt", ".a"), ("foo..txt", "foo."), ("x.~1~", "x"), ("日本.テキスト", "日本"), ("a:b.txt", "a:b"),
    ("a b.txt", "a b"), ("long." + String(repeating: "x", count: 50), "long"), ("..a.txt", "..a"),
    ("....foo", "..."), ("e\u{301}.txt", "e\u{301}"), ("name.app", "name"),
  ])
  func stemLength_endsBeforeLastPeriod(name: String, stem: String) {
    let bytes = Array(name.utf8)
    #expect(FileExtension.stemLength(of: bytes.span) == stem.utf8.count)
    #expect(bytes.starts(with: Array(stem.utf8)))
  }

  @Test(
    arguments: [
      "", ".", "..", "...", "plain", ".bashrc", ".txt", "foo.", "foo...", "x.tar.gz.", "..foo", "...foo",
      "a.b c",
      "a. txt", "a.txt ", "a.b/c",
    ]
      + [
        "\u{61C}", "\u{200E}", "\u{200F}", "\u{202A}", "\u{202B}", "\u{202C}", "\u{202D}", "\u{202E}",
        "\u{2066}",
        "\u{2067}", "\u{2068}", "\u{2069}",
      ].flatMap { ["foo.\($0)txt", "foo.tx\($0)"] })
  func stemLength_ofNameWithoutExtension_isNil(name: String) {
    let bytes = Array(name.utf8)
    #expect(FileExtension.stemLength(of: bytes.span) == nil)
  }

  @Test(arguments: ["foo.\u{2010}x", "foo.\u{61B}x", "a\u{202E}b.txt"])
  func stemLength_withNeighboursOfBidiControls_isFound(name: String) {
    let bytes = Array(name.utf8)
    #expect(FileExtension.stemLength(of: bytes.span) != nil)
  }

  @Test func stemLength_withTruncatedUTF8_isFound() {
    let cut: [UInt8] = [0x61, 0x2e, 0xe2, 0x80]
    #expect(FileExtension.stemLength(of: cut.span) == 1)
    let lead: [UInt8] = [0x61, 0x2e, 0xd8]
    #expect(FileExtension.stemLength(of: lead.span) == 1)
  }
}

@Suite struct ExtensionRuleTests {
  @Test(arguments: [
    ("photo.jpg", "photo"), ("Photo.JPG", "Photo"), ("song.mp3", "song"), ("film.mov", "film"),
    ("paper.pdf", "paper"), ("letter.docx", "letter"), ("sheet.ods", "sheet"), ("backup.zip", "backup"),
    ("letter.rtf", "letter"), ("page.html", "page"), ("Face.otf", "Face"), ("Disk.dmg", "Disk"),
    ("notes.txt", "notes"), ("notes.text", "notes"), ("a:b.txt", "a:b"), ("foo..txt", "foo."),
    ("MyDocument.old.txt", "MyDocument.old"), ("v1.2.pdf", "v1.2"), (".a.txt", ".a"),
  ])
  func modeHide_hidesExtensionsRecognizedByContent(name: String, expected: String) {
    #expect(shown(name, .hide) == expected)
    #expect(shown(name, .hide, .symlink) == expected)
  }

  @Test(arguments: [
    "data.csv", "data.json", "README.md", "conf.xml", "drawing.svg", "foo.c", "foo.swift", "run.sh", "x.py",
    "Cargo.toml", "Makefile.am", "v1.2", "libfoo.so.1", "libfoo.so", "a.unknown", "x.~1~", "photo.jpg~",
    "notes.txt.bak", "notes.txt.orig", "notes.old", "x.tmp", "film.mp4.part", ".notes.txt.swp", "apt.lock",
    "tool.jar", "tool.deb", "plain.app", "CMakeLists.txt", "requirements.txt", "Setup.pkg", "日本.テキスト",
  ])
  func modeHide_keepsExtensionsNotRecognizedByContent(name: String) {
    #expect(shown(name, .hide) == name)
  }

  @Test(arguments: ["main.c.gz", "data.csv.zip", "photo.jpg.txt", "archive.tar.gz", "a.md.html"])
  func modeHide_keepsExtensionBehindAnother(name: String) {
    #expect(shown(name, .hide) == name)
  }

  @Test(arguments: [
    ("a.txt", "a"), ("foo.c", "foo"), ("archive.tar.gz", "archive.tar"), ("v1.2", "v1"), ("a.1", "a"),
    ("MyDocument.old.txt", "MyDocument.old"), ("main.c.gz", "main.c"), ("x.~1~", "x"), ("日本.テキスト", "日本"),
    ("CMakeLists.txt", "CMakeLists"), (".bashrc", ".bashrc"), ("foo.", "foo."), ("plain.app", "plain"),
    ("foo.\u{202E}txt", "foo.\u{202E}txt"), ("a. txt", "a. txt"),
  ])
  func modeAll_hidesEveryExtension(name: String, expected: String) {
    #expect(shown(name, .all) == expected)
    #expect(shown(name, .all, .symlink) == expected)
  }

  @Test func modeFlag_hidesKnownExtensionsOfFlaggedItemsAndApplications() {
    #expect(shown("flagged.txt", .flag) == "flagged.txt")
    #expect(shown("flagged.txt", .flag, flag: true) == "flagged")
    #expect(shown("foo.c", .flag, flag: true) == "foo")
    #expect(shown("v1.2", .flag, flag: true) == "v1.2")
    #expect(shown("a.unknown", .flag, flag: true) == "a.unknown")
    #expect(shown("Letter.rtfd", .flag, .package) == "Letter.rtfd")
    #expect(shown("Letter.rtfd", .flag, .package, flag: true) == "Letter")
    #expect(shown("Chess.app", .flag, .package) == "Chess")
    #expect(shown("Chess.app", .flag, .file) == "Chess.app")
  }

  @Test(arguments: ["photo.jpg", "Chess.app", "Letter.rtfd"])
  func modeShow_hidesNothing(name: String) {
    for kind in EntryKind.allCases { #expect(shown(name, .show, kind, flag: true) == name) }
  }

  @Test(arguments: ExtensionMode.allCases)
  func everyMode_keepsNamesOfDirectoriesAndSpecialFiles(mode: ExtensionMode) {
    for kind in [EntryKind.directory, .other] {
      for name in ["dir.v1.2", "Photos.jpg", "X.app"] { #expect(shown(name, mode, kind, flag: true) == name) }
    }
  }

  @Test(arguments: [ExtensionMode.hide, .all])
  func modesHideAndAll_hideExtensionsOfPackages(mode: ExtensionMode) {
    for (name, expected) in [
      ("Chess.app", "Chess"), ("CHESS.APP", "CHESS"), ("Letter.rtfd", "Letter"), ("proj.xcodeproj", "proj"),
      ("Foo 1.2.app", "Foo 1.2"), ("Old.pages", "Old"), ("bitpkg", "bitpkg"),
    ] {
      #expect(shown(name, mode, .package) == expected)
    }
  }

  @Test func packageByBundleBit_keepsUnknownExtension() {
    #expect(shown("Reports 1.2", .hide, .package) == "Reports 1.2")
    #expect(shown("My.penpot", .hide, .package) == "My.penpot")
    let rule = ExtensionRule(mode: .hide, known: KnownExtensions.known.inserting(["penpot"]))
    let name = Array("My.penpot".utf8)
    #expect(rule.stemLength(of: name.span, kind: .package, finderFlagHidden: false) == 2)
  }

  @Test(arguments: [ExtensionMode.hide, .all, .flag])
  func application_withStemOfDocument_keepsExtension(mode: ExtensionMode) {
    for name in ["photo.jpg.app", "Chess.mov.app", "Chess.MOV.App", "notes.txt.app"] {
      #expect(shown(name, mode, .package, flag: true) == name)
    }
    #expect(shown("Foo 1.2.app", mode, .package) == "Foo 1.2")
  }

  @Test(arguments: ["photo.jpg.command", "photo.jpg.sh", "a.pdf.desktop", "a.pdf.exe", "a.pdf.workflow"])
  func program_withStemOfDocument_keepsExtension(name: String) {
    #expect(shown(name, .all) == name)
    #expect(shown(name, .flag, flag: true) == name)
  }

  @Test func nonUTF8Name_isShownWhole() {
    let name: [UInt8] = [0xff] + Array("photo.jpg".utf8)
    for mode in ExtensionMode.allCases {
      let length = ExtensionRule(mode: mode).stemLength(of: name.span, kind: .file, finderFlagHidden: true)
      #expect(length == nil)
    }
  }

  /// Every name composed of four of these pieces, in every mode.
  @Test func shownName_isAlwaysUsable() {
    let pieces = ["", ".", "..", "a", " ", "txt", "app", "jpg", "\u{202E}", "é"]
    for a in pieces {
      for b in pieces {
        for c in pieces {
          for d in pieces {
            let name = a + b + c + d
            for mode in ExtensionMode.allCases {
              for kind in [EntryKind.file, .package] {
                let result = shown(name, mode, kind, flag: true)
                if result == name { continue }
                #expect(!["", ".", ".."].contains(result) && name.hasPrefix(result))
              }
            }
          }
        }
      }
    }
  }
}

@Suite struct KnownExtensionsTests {
  @Test func extensionSet_ignoresCaseOfASCIILetters() {
    let set = ExtensionSet(["Txt", "gbProj"])
    for text in ["txt", "TXT", "GBPROJ", "gbproj"] { #expect(set.contains(text)) }
    for text in ["tx", "txtt", "", "\u{0}txt", "t\u{F8}t"] { #expect(!set.contains(text)) }
  }

  @Test func extensionSet_distinguishesLongExtensions() {
    let a = String(repeating: "x", count: 31)
    let set = ExtensionSet([a + "a", a + "ab"])
    #expect(set.count == 1)
    #expect(set.contains(a + "a") && !set.contains(a + "b") && !set.contains(a + "ab"))
    #expect(ExtensionSet(["abcdefghijklmnop"]).contains("abcdefghijklmnop"))
    #expect(!ExtensionSet(["abcdefghijklmnopa"]).contains("abcdefghijklmnop"))
  }

  @Test func extensionSet_omitsInvalidExtensions() {
    #expect(ExtensionSet(["", "a.b", "a/b", "a b", "ok"]) == ExtensionSet(["ok"]))
    #expect(ExtensionSet(["a"]).inserting(["b"]).removing(["A"]) == ExtensionSet(["b"]))
  }

  @Test func knownExtensions_includeHideableAndPackageTypes() {
    #expect(KnownExtensions.known.union(KnownExtensions.hideable) == KnownExtensions.known)
    #expect(KnownExtensions.known.union(PackageTypes.builtIn.extensions) == KnownExtensions.known)
    for ext in ["2", "1", "old", "bak", "part", "tmp", "lock", "orig"] {
      #expect(!KnownExtensions.known.contains(ext))
    }
  }
}
