import CLinux
import Glibc
import Testing

/// Names that are equal to those of entries by the option `matching`.
@Suite(.mounting) struct MatchingTests {
  private func view(_ matching: String, _ names: String...) throws -> MountedView {
    try MountedView(matching.isEmpty ? "" : "matching=\(matching)") { root in
      for name in names { try put(name, at: "\(root)/\(name)") }
    }
  }

  /// A name on the disk and others that are equal to it.
  static let canonical = [
    ("\u{e9}", "e\u{301}"), ("e\u{301}.txt", "\u{e9}.txt"),
    ("\u{d55c}\u{ae00}", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"),
    ("a\u{307}\u{323}", "a\u{323}\u{307}"), ("\u{212b}ngstrom", "A\u{30a}ngstrom"), (".e\u{301}", ".\u{e9}"),
  ]
  static let caseless = [
    ("README", "readme"), ("notes.txt", "NOTES.TXT"), ("notes.txt", "Notes"), ("Stra\u{df}e", "STRASSE"),
    ("STRA\u{1e9e}E", "stra\u{df}e"), ("\u{130}stanbul", "i\u{307}stanbul"), ("ΟΔΟΣ", "οδος"),
    ("οδος", "ΟΔΟΣ"),
    ("ﬁle", "FILE"), ("\u{c9}", "e\u{301}"), (".Hidden", ".hIDDEN"), ("a\u{307}\u{323}", "A\u{323}\u{307}"),
    ("Letter.rtfd/TXT.rtf", "LETTER.RTFD/txt.RTF"),
  ]
  static let different = [
    ("i", "\u{131}"), ("i", "\u{130}"), ("e", "\u{e9}"), ("README", "readme "), ("a.txt", "A.JPG"),
  ]

  @Test(arguments: canonical) func canonicalEquivalent_leadsToEntry(real: String, typed: String) throws {
    try expect(try view("", real), typed, leadsTo: real)
    try expect(try view("caseless", real), typed, leadsTo: real)
    let exact = try MountedView("matching=exact,normalization=off") { root in
      try put("x", at: "\(root)/\(real)")
    }
    #expect(!isThere(exact.at(typed)))
  }

  @Test(arguments: caseless) func caselessMatch_leadsToEntry(real: String, typed: String) throws {
    try expect(try view("caseless", real), typed, leadsTo: real)
    let canonical = try view("", real)
    #expect(
      failure { open(canonical.at(typed), O_RDONLY) } == .noSuchFileOrDirectory || real.contains("\u{301}"))
  }

  @Test(arguments: different) func otherName_leadsNowhere(real: String, typed: String) throws {
    let view = try view("caseless", real)
    for _ in 0..<2 { #expect(!isThere(view.at(typed))) }
  }

  private func expect(_ view: MountedView, _ typed: String, leadsTo real: String) throws {
    #expect(text(view.at(typed)) == real)
    #expect(status(view.at(typed))?.st_ino == status(view.at(real))?.st_ino)
    // What resolves exists.
    #expect(failure { mkdir(view.at(typed), 0o755) } == .fileExists)
    #expect(failure { symlink("x", view.at(typed)) } == .fileExists)
    #expect(failure { open(view.at(typed), O_WRONLY | O_CREAT | O_EXCL, 0o644) } == .fileExists)
    try put("other", at: view.real("other file"))
    #expect(eventually { isThere(view.at("other file")) })
    #expect(failure { link(view.at("other file"), view.at(typed)) } == .fileExists)
    #expect(
      failure {
        dfs_renameat(AT_FDCWD, view.at("other file"), AT_FDCWD, view.at(typed), dfs_RENAME_NOREPLACE)
      }
        == .fileExists)
    let before = view.realListing()
    let file = open(view.at(typed), O_RDWR | O_CREAT, 0o644)
    #expect(file >= 0)
    close(file)
    #expect(view.realListing() == before)
    // In place of it.
    #expect(rename(view.at("other file"), view.at(typed)) == 0)
    #expect(view.realListing() == before.subtracting(["other file"]) && text(view.real(real)) == "other")
    #expect(text(view.at(typed)) == "other")
    // The kernel has moved its dentry of the other file to the typed name.
    #expect(unlink(view.at(real)) == 0)
    #expect(!isThere(view.at(typed)) && !isThere(view.at(real)) && !isThere(view.real(real)))
  }

  @Test func nameThatSeveralMatch_leadsNowhere_untilOneIsLeft() throws {
    let view = try view("caseless", "README", "readme")
    for _ in 0..<3 { #expect(!isThere(view.at("ReadMe"))) }
    #expect(text(view.at("README")) == "README" && text(view.at("readme")) == "readme")
    #expect(unlink(view.at("readme")) == 0)
    #expect(text(view.at("ReadMe")) == "README" && text(view.at("readme")) == "README")
    try put("two", at: view.real("readme"))
    #expect(eventually { text(view.at("readme")) == "two" && !isThere(view.at("ReadMe")) })
    for _ in 0..<3 { #expect(!isThere(view.at("ReadMe"))) }
    #expect(unlink(view.real("README")) == 0)
    #expect(eventually { text(view.at("ReadMe")) == "two" })
    // Nothing is guessed: it is a third one.
    try put("three", at: view.real("README"))
    #expect(eventually { text(view.at("README")) == "three" && !isThere(view.at("ReadMe")) })
    try put("new", at: view.at("ReadMe"))
    #expect(view.realListing() == ["README", "readme", "ReadMe"] && text(view.at("ReadMe")) == "new")
  }

  /// The kernel knows the entry by names that the change did not use.
  @Test(arguments: ["report", "report.txt", "REPORT", "REPORT.TXT"], [false, true])
  func changeByAnyName_isSeenByAllOthers(used: String, isRename: Bool) throws {
    let view = try view("caseless", "report.txt")
    let names = ["report", "report.txt", "REPORT", "REPORT.TXT", "Report"]
    for round in 0..<20 {
      for name in names.shuffled() { #expect(isThere(view.at(name)), "\(round) \(name)") }
      if isRename {
        #expect(rename(view.at(used), view.at("moved.txt")) == 0)
      } else {
        #expect(unlink(view.at(used)) == 0)
      }
      for name in names.shuffled() { #expect(!isThere(view.at(name)), "\(round) \(name)") }
      if isRename {
        #expect(rename(view.at("MOVED"), view.at("report.txt")) == 0)
      } else {
        try put("text", at: view.at("report.txt"))
      }
    }
    #expect(view.realListing() == ["report.txt"])
  }

  @Test func changeInBackingTree_isSeenByMatchingNames() throws {
    let view = try view("caseless", "report.txt")
    for _ in 0..<10 {
      #expect(text(view.at("REPORT")) == "report.txt" && text(view.at("REPORT.TXT")) == "report.txt")
      #expect(rename(view.real("report.txt"), view.real("away")) == 0)
      #expect(eventually { !isThere(view.at("REPORT")) && !isThere(view.at("REPORT.TXT")) })
      #expect(!isThere(view.at("REPORT")))
      #expect(rename(view.real("away"), view.real("report.txt")) == 0)
      #expect(eventually { isThere(view.at("REPORT")) && isThere(view.at("REPORT.TXT")) })
    }
  }

  @Test(arguments: [false, true]) func absentName_resolvesWhenMatchingEntryAppears(isThroughView: Bool) throws
  {
    let view = try view("caseless", "other")
    for round in 0..<10 {
      for _ in 0..<3 {
        for name in ["LETTER", "LETTER.TXT", "FOLDER", "\u{c9}"] {
          #expect(!isThere(view.at(name)), "\(round)")
        }
      }
      let path = isThroughView ? view.at : view.real
      try put("\(round)", at: path("letter.txt"))
      try put("\(round)", at: path("e\u{301}"))
      #expect(mkdir(path("folder"), 0o755) == 0)
      if !isThroughView { #expect(eventually { isThere(view.at("FOLDER")) && isThere(view.at("LETTER")) }) }
      if !isThroughView {
        #expect(eventually { isThere(view.at("\u{c9}")) && isThere(view.at("LETTER.TXT")) })
      }
      for name in ["LETTER", "LETTER.TXT", "\u{c9}"] {
        #expect(text(view.at(name)) == "\(round)", "\(round) \(name)")
      }
      #expect(isThere(view.at("FOLDER")))
      #expect(rmdir(path("folder")) == 0 && unlink(path("letter.txt")) == 0 && unlink(path("e\u{301}")) == 0)
      if !isThroughView {
        #expect(
          eventually {
            !isThere(view.at("FOLDER")) && !isThere(view.at("LETTER")) && !isThere(view.at("\u{c9}"))
          })
      }
    }
  }

  @Test(arguments: [("", "\u{e9}"), ("", "absent.h"), ("caseless", "Absent"), ("caseless", ".Absent")])
  func absentName_lookedUpAgain_needsNoRequest(matching: String, name: String) throws {
    let view = try view(matching, "e\u{301}\u{302}", "other")
    #expect(!view.listing().isEmpty)
    for _ in 0..<3 { #expect(!isThere(view.at(name))) }
    let before = try view.requestCount()
    for _ in 0..<100 { #expect(!isThere(view.at(name))) }
    #expect(try view.requestCount() - before < 10)
  }

  /// The kernel compares the files of both names itself, and renames nothing. (`vfs_rename`)
  @Test func renameThatChangesCaseAlone_needsThirdName() throws {
    let view = try view("caseless", "notes.txt", "Folder/x")
    #expect(rename(view.at("notes"), view.at("NOTES")) == 0)
    #expect(view.realListing() == ["notes.txt", "Folder"])
    for (old, new) in [("notes", "NOTES"), ("Folder", "FOLDER")] {
      #expect(rename(view.at(old), view.at("third")) == 0 && rename(view.at("third"), view.at(new)) == 0)
    }
    #expect(view.realListing() == ["NOTES.txt", "FOLDER"])
    #expect(text(view.at("notes")) == "notes.txt" && text(view.at("folder/X")) == "Folder/x")
  }

  @Test func directoryByMatchingName_canBeWorkedIn() throws {
    let view = try view("caseless", "Folder/x")
    let outcome = view.shell(
      "cd FOLDER && printf new >y && mv X z && mkdir sub && cd SUB && pwd -P && printf 1 >../SUB/file")
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(view.realListing("Folder") == ["y", "z", "sub"] && text(view.real("Folder/sub/file")) == "1")
    #expect(rmdir(view.at("folder")) != 0)
  }

  @Test(arguments: ["", "caseless"]) func deniedEntry_isDeniedByEveryEquivalent(matching: String) throws {
    let view = try MountedView("hidden=deny\(matching.isEmpty ? "" : ",matching=\(matching)")") { root in
      try put("secret", at: "\(root)/.e\u{301}")
      try put("\u{e9}\nplanned\n", at: "\(root)/.hidden")
      try put("secret", at: "\(root)/e\u{301}")
    }
    let names = ["\u{e9}", ".\u{e9}", "planned"] + (matching.isEmpty ? [] : [".E\u{301}", ".HIDDEN"])
    for name in names + names {
      #expect(failure { open(view.at(name), O_RDONLY) } == .noSuchFileOrDirectory, "\(name)")
      #expect(failure { open(view.at(name), O_WRONLY | O_CREAT, 0o644) } == .permissionDenied, "\(name)")
      #expect(failure { mkdir(view.at(name), 0o755) } == .permissionDenied, "\(name)")
      #expect(failure { unlink(view.at(name)) } == .noSuchFileOrDirectory, "\(name)")
      try put("x", at: view.at("other"))
      #expect(failure { rename(view.at("other"), view.at(name)) } == .permissionDenied, "\(name)")
    }
    #expect(view.realListing() == [".e\u{301}", ".hidden", "e\u{301}", "other"])
    // A name that is only equal to a hidden one leads nowhere until another file has it.
    let equal = "\u{c9}"
    #expect(failure { open(view.at(equal), O_RDONLY) } == .noSuchFileOrDirectory)
    #expect(failure { unlink(view.at(equal)) } == .noSuchFileOrDirectory)
    try put("new", at: view.at(equal))
    #expect(text(view.at(equal)) == "new" && text(view.real("e\u{301}")) == "secret")
    #expect(unlink(view.at(equal)) == 0)
    #expect(view.realListing() == [".e\u{301}", ".hidden", "e\u{301}", "other"])
  }

  /// A listed file beside a hidden one of an equal name, such as a program may move away while it saves.
  @Test(.needing("vim"), arguments: ["SECRET.txt", "SECRET"]) func fileWithDeniedTwin_isSavedAsAnyOther(
    name: String
  ) throws {
    let view = try MountedView("config=none") { root in
      try put("hidden", at: "\(root)/secret.txt")
      try put("old", at: "\(root)/SECRET.txt")
      try put("[[rule]]\nmatch = \"secret.txt\"\nhidden = true\n", at: "\(root)/.rules.toml")
    }
    view.unmount()
    try view.mount("matching=caseless,hidden=deny,config=\(view.real(".rules.toml"))")
    func expect(_ content: String) {
      #expect(view.listing() == ["SECRET"] && text(view.at(name)) == content)
      #expect(view.realListing() == ["secret.txt", "SECRET.txt", ".rules.toml"])
      #expect(text(view.real("secret.txt")) == "hidden" && text(view.real("SECRET.txt")) == content)
      #expect(failure { open(view.at("secret.txt"), O_RDONLY) } == .noSuchFileOrDirectory)
      // Only the listed one counts, so that nothing tells of the other.
      #expect(text(view.at("Secret.TXT")) == content && text(view.at("secret")) == content)
    }
    expect("old")
    let moved = rename(view.at(name), view.at("backup")) == 0
    #expect(moved)
    #expect(!isThere(view.at(name)) && !isThere(view.at("Secret.txt")))
    #expect(failure { mkdir(view.at("secret.txt"), 0o755) } == .permissionDenied)
    try put("new", at: view.at(name))
    #expect(unlink(view.at("backup")) == 0)
    expect("new")
    for script in [
      "sed -i s/new/newer/ \(name)", "cp \(name) other; mv other \(name)",
      "vim -es -u NONE -N -c 'set backup backupcopy=no' -c '%s/.*/vim/' -c wq \(name); rm -f \(name)~",
    ] {
      let outcome = view.shell(script)
      #expect(outcome.status == 0, "\(script): \(outcome.complaint)")
    }
    expect("vim\n")
  }

  @Test func protectedEntry_isProtectedByEveryName() throws {
    let view = try MountedView("config=none") { root in
      try put("fixed", at: "\(root)/Fixe\u{301}/file.txt")
      try put("[[rule]]\nmatch = \"Fix\u{e9}/\"\nread-only = true\n", at: "\(root)/.rules.toml")
    }
    view.unmount()
    try view.mount("matching=caseless,config=\(view.real(".rules.toml"))")
    for name in ["Fixe\u{301}", "Fix\u{e9}", "FIX\u{c9}"] {
      #expect(text(view.at("\(name)/FILE")) == "fixed")
      #expect(failure { open(view.at("\(name)/FILE"), O_WRONLY) } == .notPermitted)
      #expect(failure { unlink(view.at("\(name)/File.TXT")) } == .notPermitted)
      #expect(failure { mkdir(view.at("\(name)/new"), 0o755) } == .notPermitted)
      #expect(failure { rename(view.at(name), view.at("other")) } == .notPermitted)
    }
  }

  /// An application of a Mac, whose own programs ask for resources in another case than they have.
  @Test(arguments: ["Calc.app", "CALC.app"]) func resourcesOfApplication_inAnotherCase_open(typed: String)
    throws
  {
    let view = try MountedView("matching=caseless") { root in
      try put("<plist><dict></dict></plist>", at: "\(root)/Calc.app/Contents/Info.plist")
      try put("icon", at: "\(root)/Calc.app/Contents/Resources/AppIcon.icns")
      try put("menu", at: "\(root)/Calc.app/Contents/Resources/Base.lproj/MainMenu.nib")
    }
    #expect(view.listing() == ["Calc"])
    for _ in 0..<2 {
      #expect(text(view.at("\(typed)/Contents/Resources/appicon.ICNS")) == "icon")
      #expect(text(view.at("\(typed)/contents/resources/base.LPROJ/mainmenu.nib")) == "menu")
    }
    #expect(names(view.at("\(typed)/contents/RESOURCES")) == ["AppIcon.icns", "Base.lproj"])
    #expect(Displayfs.run(["set", view.mountPoint, "matching=canonical"]).status == 0)
    #expect(eventually { !isThere(view.at("Calc.app/Contents/Resources/appicon.ICNS")) })
  }

  /// A name that is made of the typed one must not become a twin.
  @Test func renameToStemOfTwin_isRefused() throws {
    let view = try view("caseless", "photo.jpg", "trip.jpg", "trip.png")
    #expect(failure { rename(view.at("photo"), view.at("TRIP")) } == .fileExists)
    #expect(failure { link(view.at("photo"), view.at("TRIP")) } == .fileExists)
    #expect(view.realListing() == ["photo.jpg", "trip.jpg", "trip.png"])
  }

  @Test func optionChange_takesEffectAtOnce() throws {
    let view = try view("", "README")
    for _ in 0..<3 { #expect(!isThere(view.at("readme"))) }
    #expect(Displayfs.run(["set", view.mountPoint, "matching=caseless"]).status == 0)
    #expect(eventually { text(view.at("readme")) == "README" })
    #expect(Displayfs.run(["set", view.mountPoint, "matching=exact"]).status == 0)
    #expect(eventually { !isThere(view.at("readme")) })
  }
}
