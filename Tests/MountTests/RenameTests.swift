import CLinux
import Glibc
import SystemPackage
import Testing

@Suite(.mounting) struct RenameTests {
  private func view(_ options: String = "", _ files: String...) throws -> MountedView {
    try MountedView(options) { root in for file in files { try put(file, at: "\(root)/\(file)") } }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let files: [String]
    let from: String
    let to: String
    let result: Set<FileName>

    init(_ files: [String], _ from: String, _ to: String, _ result: Set<FileName>) {
      (self.files, self.from, self.to, self.result) = (files, from, to, result)
    }

    var testDescription: String { "\(files): \(from) -> \(to)" }
  }

  @Test(arguments: [
    // By a display name, to a name that is free.
    Case(["photo.jpg"], "photo", "trip", ["trip.jpg"]),
    Case(["photo.jpg"], "photo", "trip.jpg", ["trip.jpg"]),
    Case(["photo.jpg"], "photo", "trip.JPG", ["trip.JPG"]),
    Case(["photo.jpg"], "photo", "trip.png", ["trip.png"]),
    Case(["photo.jpg"], "photo", "v1.2", ["v1.2.jpg"]),
    Case(["photo.jpg"], "photo", "photo~", ["photo~.jpg"]),
    Case(["photo.jpg"], "photo", ".photo.bak", [".photo.bak"]),
    // By a display name, to one that is taken.
    Case(["photo.jpg", "trip.png"], "photo", "trip", ["trip.jpg"]),
    Case(["photo.jpg", "trip.jpg"], "photo", "trip", ["trip.jpg"]),
    Case(["photo.jpg", "trip.jpg"], "photo", "trip.jpg", ["trip.jpg"]),
    Case(["photo.jpg", "trip"], "photo", "trip", ["trip.jpg"]),
    // By the real name.
    Case(["photo.jpg"], "photo.jpg", "trip", ["trip"]),
    Case(["photo.jpg"], "photo.jpg", "trip.png", ["trip.png"]),
    Case(["draft", "notes.txt"], "draft", "notes", ["notes.txt"]),
    Case(["draft.csv", "notes.txt"], "draft.csv", "notes", ["notes.txt"]),
    Case(["photo.jpg", "notes.txt"], "photo.jpg", "notes", ["notes.txt"]),
    Case(["draft", "notes.txt"], "draft", "notes.txt", ["notes.txt"]),
    Case(["draft", "notes"], "draft", "notes", ["notes"]),
    // Between the two names of one entry.
    Case(["photo.jpg"], "photo", "photo.jpg", ["photo.jpg"]),
    Case(["photo.jpg"], "photo.jpg", "photo", ["photo.jpg"]),
    Case(["photo.jpg"], "photo", "photo", ["photo.jpg"]),
  ])
  func rename_inOneDirectory_givesExpectedRealName(_ row: Case) throws {
    let view = try MountedView { root in for file in row.files { try put(file, at: "\(root)/\(file)") } }
    #expect(failure { rename(view.at(row.from), view.at(row.to)) } == nil)
    #expect(view.realListing() == row.result)
    // What was renamed is what is there, under every name.
    #expect(text(view.at(row.to)) == row.files[0])
    for name in view.listing() { #expect(text(view.at("\(name)")) == row.files[0]) }
  }

  @Test(arguments: [
    Case(["photo.jpg"], "photo", "Sub/photo", ["photo.jpg"]),
    Case(["photo.jpg"], "photo", "Sub/trip", ["trip.jpg"]),
    Case(["photo.jpg"], "photo.jpg", "Sub/trip", ["trip"]),
    Case(["photo.jpg", "Sub/trip.png"], "photo", "Sub/trip", ["trip.jpg"]),
    Case(["draft", "Sub/notes.txt"], "draft", "Sub/notes", ["notes.txt"]),
  ])
  func rename_intoAnotherDirectory_givesExpectedRealName(_ row: Case) throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/Sub")
      for file in row.files { try put(file, at: "\(root)/\(file)") }
    }
    #expect(failure { rename(view.at(row.from), view.at(row.to)) } == nil)
    #expect(view.realListing("Sub") == row.result)
    #expect(view.realListing() == ["Sub"])
    #expect(text(view.at(row.to)) == row.files[0])
  }

  @Test func rename_thatEditsLocalizedName_isRefused() throws {
    let view = try MountedView("language=de,profile=macos") { root in
      try put("", at: "\(root)/Music/.localized")
      makeDirectory("\(root)/Sub")
    }
    #expect(failure { rename(view.at("Musik"), view.at("Lieder")) } == .notPermitted)
    #expect(failure { rename(view.at("Musik"), view.at("Sub/Musik")) } == nil)
    #expect(view.realListing("Sub") == ["Music"])
    #expect(failure { rename(view.at("Sub/Musik"), view.at("Sub/Lieder")) } == .notPermitted)
    #expect(failure { rename(view.at("Sub/Music"), view.at("Sub/Songs")) } == nil)
    #expect(view.listing("Sub") == ["Songs"])
  }

  @Test func renameNoReplace_toNameThatResolves_fails() throws {
    let view = try view("", "photo.jpg", "trip.png", "draft")
    let flag = dfs_RENAME_NOREPLACE
    func move(_ from: String, _ to: String) -> Errno? {
      failure { dfs_renameat(AT_FDCWD, view.at(from), AT_FDCWD, view.at(to), flag) }
    }
    #expect(move("draft", "trip") == .fileExists)
    #expect(move("draft", "trip.png") == .fileExists)
    #expect(move("photo", "trip") == .fileExists)
    #expect(move("photo", "holiday") == nil)
    #expect(move("draft", "final") == nil)
    #expect(view.realListing() == ["holiday.jpg", "trip.png", "final"])
  }

  @Test func renameExchange_swapsContentsAndKeepsNames() throws {
    let view = try view("", "photo.jpg", "notes.txt")
    #expect(
      failure { dfs_renameat(AT_FDCWD, view.at("photo"), AT_FDCWD, view.at("notes"), dfs_RENAME_EXCHANGE) }
        == nil)
    #expect(view.realListing() == ["photo.jpg", "notes.txt"])
    #expect(text(view.at("photo")) == "notes.txt")
    #expect(text(view.at("notes")) == "photo.jpg")
    #expect(
      failure { dfs_renameat(AT_FDCWD, view.at("photo"), AT_FDCWD, view.at("none"), dfs_RENAME_EXCHANGE) }
        == .noSuchFileOrDirectory)
  }

  @Test func rename_neverReplacesNameThatWasNotTyped() throws {
    // `photo` would become `trip.jpg`, which is another entry and shown as such.
    let view = try view("", "photo.jpg", "trip.jpg", "trip.png")
    #expect(view.listing() == ["photo", "trip.jpg", "trip.png"])
    #expect(failure { rename(view.at("photo"), view.at("trip")) } == .fileExists)
    #expect(view.realListing() == ["photo.jpg", "trip.jpg", "trip.png"])
  }

  @Test func rename_ofPackage_movesItsDirectory() throws {
    let view = try MountedView { root in
      try put("{}", at: "\(root)/Letter.rtfd/TXT.rtf")
      makeDirectory("\(root)/Sub")
    }
    #expect(failure { rename(view.at("Letter"), view.at("Sub/Mail")) } == nil)
    #expect(view.realListing("Sub") == ["Mail.rtfd"])
    #expect(text(view.at("Sub/Mail.rtfd/TXT.rtf")) == "{}")
    #expect(status(view.at("Sub/Mail"))?.isRegular == true)
  }

  @Test func appleDoubleFile_followsRenameAndUnlink() throws {
    let sidecar = TestTree.appleDouble(TestTree.finderInfo(0))
    let view = try MountedView { root in
      for name in ["photo.jpg", "old.txt"] {
        try put("x", at: "\(root)/\(name)")
        try put(sidecar, at: "\(root)/._\(name)")
      }
      makeDirectory("\(root)/Sub")
    }
    #expect(view.listing() == ["photo", "old", "Sub"])
    #expect(failure { rename(view.at("photo"), view.at("trip")) } == nil)
    #expect(view.realListing().isSuperset(of: ["trip.jpg", "._trip.jpg"]))
    #expect(failure { rename(view.at("trip"), view.at("Sub/trip")) } == nil)
    #expect(view.realListing("Sub") == ["trip.jpg", "._trip.jpg"])
    #expect(failure { unlink(view.at("old")) } == nil)
    #expect(view.realListing() == ["Sub"])
    #expect(failure { unlink(view.at("Sub/trip")) } == nil)
    #expect(failure { rmdir(view.at("Sub")) } == nil)
  }

  @Test func appleDoubleFile_followsExchangeReplaceAndRemove() throws {
    func sidecar(_ flags: UInt16) -> [UInt8] { TestTree.appleDouble(TestTree.finderInfo(flags)) }
    let view = try MountedView { root in
      for (number, name) in ["photo.jpg", "notes.txt", "draft"].enumerated() {
        try put(name, at: "\(root)/\(name)")
        if name != "draft" { try put(sidecar(UInt16(number + 1)), at: "\(root)/._\(name)") }
      }
      for name in ["A.rtfd", "B.rtfd"] {
        try put(name, at: "\(root)/\(name)/TXT.rtf")
        try put(sidecar(8), at: "\(root)/._\(name)")
      }
      makeDirectory("\(root)/Folder")
      try put(sidecar(9), at: "\(root)/._Folder")
      try put("no companion", at: "\(root)/._other")
      try put("x", at: "\(root)/other")
    }
    func exchange(_ from: String, _ to: String) -> Errno? {
      failure { dfs_renameat(AT_FDCWD, view.at(from), AT_FDCWD, view.at(to), dfs_RENAME_EXCHANGE) }
    }
    #expect(exchange("photo", "notes") == nil)
    #expect(contents(view.real("._photo.jpg")) == sidecar(2))
    #expect(contents(view.real("._notes.txt")) == sidecar(1))
    #expect(exchange("photo", "draft") == nil)
    #expect(contents(view.real("._draft")) == sidecar(2) && !isThere(view.real("._photo.jpg")))
    #expect(exchange("photo", "draft") == nil)
    #expect(contents(view.real("._photo.jpg")) == sidecar(2) && !isThere(view.real("._draft")))
    // A link gets a sidecar too, and a name that is saved over keeps its sidecar.
    #expect(failure { link(view.at("notes"), view.at("notes~")) } == nil)
    #expect(contents(view.real("._notes~.txt")) == sidecar(1))
    #expect(failure { rename(view.at("draft"), view.at("notes")) } == nil)
    #expect(text(view.real("notes.txt")) == "draft" && contents(view.real("._notes.txt")) == sidecar(1))
    // A sidecar that moves with its file replaces the one at the target. The sidecar of a replaced file is removed.
    #expect(failure { rename(view.at("photo.jpg"), view.at("notes")) } == nil)
    #expect(contents(view.real("._notes.txt")) == sidecar(2) && !isThere(view.real("._photo.jpg")))
    #expect(failure { rename(view.at("A"), view.at("B")) } == nil)
    #expect(isThere(view.real("._B.rtfd")) && !isThere(view.real("._A.rtfd")))
    #expect(failure { unlink(view.at("B")) } == nil)
    #expect(!isThere(view.real("._B.rtfd")))
    #expect(failure { rmdir(view.at("Folder")) } == nil)
    #expect(!isThere(view.real("._Folder")))
    #expect(failure { unlink(view.at("other")) } == nil)
    #expect(text(view.real("._other")) == "no companion")
  }

  @Test func rename_toNonEmptyDirectory_fails() throws {
    let view = try MountedView("packages=directory") { root in
      try put("new", at: "\(root)/New.rtfd/TXT.rtf")
      try put("x", at: "\(root)/Full/x")
      makeDirectory("\(root)/Empty")
    }
    #expect(failure { rename(view.at("New"), view.at("Full")) } == .directoryNotEmpty)
    #expect(view.realListing() == ["New.rtfd", "Full", "Empty"])
    #expect(text(view.at("New/TXT.rtf")) == "new" && text(view.at("Full/x")) == "x")
    #expect(failure { rename(view.at("New"), view.at("Empty")) } == nil)
    #expect(view.realListing() == ["Empty.rtfd", "Full"])
    #expect(text(view.at("Empty/TXT.rtf")) == "new")
  }

  /// The kernel refuses to move what it knows at another place as long as a rename between directories is under way.
  @Test func rename_outOfMovedPackage_succeeds() throws {
    let view = try MountedView { root in
      for directory in ["Deep/inside", "Sub"] { try put("x", at: "\(root)/Letter.rtfd/\(directory)/x") }
      makeDirectory("\(root)/Folder")
    }
    #expect(text(view.at("Letter.rtfd/Deep/inside/x")) == "x" && text(view.at("Letter.rtfd/Sub/x")) == "x")
    let inside = try OpenFile(view.at("Letter.rtfd/Deep/inside"), O_RDONLY | O_DIRECTORY)
    #expect(failure { rename(view.at("Letter"), view.at("Folder/Letter")) } == nil)
    #expect(failure { rename(view.at("Folder/Letter.rtfd/Sub"), view.at("Sub")) } == nil)
    #expect(failure { rename(view.at("Folder/Letter.rtfd/Deep/inside"), view.at("inside")) } == nil)
    #expect(text(view.at("inside/x")) == "x" && text(view.at("Sub/x")) == "x")
    #expect(inside.status.isDirectory)
    #expect(view.realListing("Folder/Letter.rtfd/Deep") == [])
  }

  @Test func link_keepsHiddenExtension() throws {
    let view = try view("", "notes.txt")
    #expect(failure { link(view.at("notes"), view.at("notes~")) } == nil)
    #expect(view.realListing() == ["notes.txt", "notes~.txt"])
    #expect(view.listing() == ["notes", "notes~"])
    #expect(status(view.at("notes"))?.st_nlink == 2)
    #expect(status(view.at("notes"))?.st_ino == status(view.at("notes~"))?.st_ino)
    #expect(failure { link(view.at("notes"), view.at("notes~")) } == .fileExists)
    #expect(failure { link(view.at("notes"), view.at("copy.txt")) } == nil)
    #expect(view.realListing() == ["notes.txt", "notes~.txt", "copy.txt"])
  }

  @Test func create_ofNameThatResolves_failsWithEEXIST() throws {
    let view = try view("", "notes.txt", ".dot")
    for name in ["notes", "notes.txt", ".dot"] {
      #expect(failure { open(view.at(name), O_WRONLY | O_CREAT | O_EXCL, 0o644) } == .fileExists)
      #expect(failure { mkdir(view.at(name), 0o755) } == .fileExists)
      #expect(failure { symlink("x", view.at(name)) } == .fileExists)
      #expect(failure { mkfifo(view.at(name), 0o644) } == .fileExists)
    }
    try put("new", at: view.at("notes"))
    #expect(view.realListing() == ["notes.txt", ".dot"])
    #expect(text(view.real("notes.txt")) == "new")
  }

  @Test func newFile_hasTypedName() throws {
    let view = try view()
    for name in [
      "letter", "photo.jpg", "4913", ".letter.swp", ".~lock.letter#", ".goutputstream-AB12CD", ".Trash-1000",
    ] {
      #expect((try? OpenFile(view.at(name), O_WRONLY | O_CREAT | O_EXCL)) != nil)
    }
    #expect(
      view.realListing() == [
        "letter", "photo.jpg", "4913", ".letter.swp", ".~lock.letter#", ".goutputstream-AB12CD",
        ".Trash-1000",
      ])
    #expect(view.listing() == ["letter", "photo", "4913"])
  }

  @Test func fileNamedLikeDisplayName_takesItOver() throws {
    let view = try view("", "notes.txt")
    try put("plain", at: view.real("notes"))
    #expect(view.listing() == ["notes", "notes.txt"])
    #expect(text(view.at("notes")) == "plain")
    #expect(text(view.at("notes.txt")) == "notes.txt")
    #expect(failure { unlink(view.at("notes")) } == nil)
    #expect(view.listing() == ["notes"])
    #expect(text(view.at("notes")) == "notes.txt")
  }
}
