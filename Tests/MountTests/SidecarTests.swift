import Glibc
import Testing

/// AppleDouble sidecars of files that a program names otherwise, or whose sidecars have other names, by the option `matching`.
@Suite(.mounting) struct SidecarTests {
  private let appleDouble = TestTree.appleDouble(TestTree.finderInfo(0))

  private func view(_ matching: String, _ names: String...) throws -> MountedView {
    try MountedView("matching=\(matching)") { root in
      for name in names { try put(name, at: "\(root)/\(name)") }
    }
  }

  @Test func sidecar_travelsWithFileNamedByMatch() throws {
    let view = try view("caseless", "photo.jpg")
    try put(appleDouble, at: view.real("._photo.jpg"))
    #expect(eventually { isThere(view.at("._PHOTO.JPG")) })
    #expect(rename(view.at("PHOTO"), view.at("Trip")) == 0)
    #expect(view.realListing() == ["Trip.jpg", "._Trip.jpg"])
    #expect(unlink(view.at("TRIP.JPG")) == 0 && view.realListing().isEmpty)
  }

  /// A file, its sidecar in another spelling, and the option.
  static let sidecars = [
    ("\u{e9}.jpg", "._e\u{301}.jpg", "canonical"), ("e\u{301}.jpg", "._\u{e9}.jpg", "canonical"),
    ("photo.jpg", "._PHOTO.JPG", "caseless"),
    ("\u{c9}.jpg", "._e\u{301}.JPG", "caseless"),
  ]

  @Test(arguments: sidecars) func sidecarInAnotherSpelling_travelsWithItsFile(
    name: String, sidecar: String, matching: String
  )
    throws
  {
    let view = try view(matching, name, "old.jpg", "other.jpg", "folder/x")
    for name in [sidecar, "._old.jpg"] { try put(appleDouble, at: view.real(name)) }
    #expect(eventually { isThere(view.at(sidecar)) && isThere(view.at("._old.jpg")) })
    #expect(rename(view.at(name), view.at("folder/trip.jpg")) == 0)
    #expect(view.realListing() == ["._old.jpg", "old.jpg", "other.jpg", "folder"])
    #expect(view.realListing("folder") == ["x", "trip.jpg", "._trip.jpg"])
    #expect(rename(view.at("folder/trip.jpg"), view.at(name)) == 0)
    #expect(rename(view.real("._\(name)"), view.real(sidecar)) == 0)
    #expect(eventually { isThere(view.at(sidecar)) && names(view.source).contains(FileName(sidecar)) })
    // The sidecar of the moved file replaces that of the other one.
    #expect(rename(view.at("old.jpg"), view.at(name)) == 0)
    #expect(view.realListing() == [FileName(name), FileName(sidecar), "other.jpg", "folder"])
    #expect(unlink(view.at(name)) == 0)
    #expect(view.realListing() == ["other.jpg", "folder"])
  }

  /// A sidecar that may be another file's stays.
  @Test func sidecarThatSeveralMatch_stays() throws {
    let view = try view("caseless", "photo.jpg", "PHOTO.jpg", "note.jpg", "NOTE.jpg")
    for name in ["._Photo.jpg", "._NOTE.jpg"] { try put(appleDouble, at: view.real(name)) }
    #expect(eventually { isThere(view.at("._Photo.jpg")) && isThere(view.at("._NOTE.jpg")) })
    #expect(rename(view.at("photo.jpg"), view.at("trip.jpg")) == 0)
    #expect(unlink(view.at("note.jpg")) == 0)
    #expect(
      view.realListing() == ["trip.jpg", "PHOTO.jpg", "._Photo.jpg", "NOTE.jpg", "._NOTE.jpg"])
    // It belongs to the one that is left, and goes by that one's new name.
    #expect(rename(view.at("PHOTO.jpg"), view.at("third")) == 0)
    #expect(rename(view.at("third"), view.at("pHoto.jpg")) == 0)
    #expect(view.realListing() == ["trip.jpg", "pHoto.jpg", "._pHoto.jpg", "NOTE.jpg", "._NOTE.jpg"])
  }

  /// A file that has the name of a sidecar and is none is data like any other.
  @Test func ordinaryFileWithNameOfSidecar_isNotReplaced() throws {
    let view = try view("exact", "a.txt", "._b.txt")
    try put(appleDouble, at: view.real("._a.txt"))
    #expect(eventually { isThere(view.at("._a.txt")) })
    #expect(rename(view.at("a.txt"), view.at("b.txt")) == 0)
    #expect(text(view.real("._b.txt")) == "._b.txt")
    #expect(view.realListing() == ["b.txt", "._a.txt", "._b.txt"])
  }

  /// The set-group-ID bit of the directory gives new files another group, which could not read the sidecar.
  @Test(.asRoot) func sidecarOfSavedFile_inSetGroupIDDirectory_isNotForItsGroup() throws {
    let view = try view("exact", "folder/notes.txt", "folder/plan.txt")
    for (name, group) in [("notes", gid_t(61_000)), ("plan", 62_000)] {
      let sidecar = view.real("folder/._\(name).txt")
      try put(TestTree.appleDouble(TestTree.finderInfo(0x000c)), at: sidecar)
      chown(sidecar, 0, group)
      chmod(sidecar, 0o640)
      #expect(eventually { isThere(view.at("folder/._\(name).txt")) })
    }
    chown(view.real("folder"), 0, 62_000)
    chmod(view.real("folder"), 0o2777)
    for (name, mode) in [("notes", mode_t(0o600)), ("plan", 0o640)] {
      #expect(rename(view.at("folder/\(name)"), view.at("folder/\(name)~")) == 0)
      try put("new", at: view.at("folder/\(name)"))
      let made = try #require(status(view.real("folder/._\(name).txt")))
      #expect(made.st_gid == 62_000 && made.st_mode & 0o777 == mode, "\(name)")
    }
  }

  @Test func sidecarOfSavedFile_keepsItsPermissions() throws {
    let view = try view("exact", "notes.txt")
    try put(TestTree.appleDouble(TestTree.finderInfo(0x000c)), at: view.real("._notes.txt"))
    chmod(view.real("._notes.txt"), 0o600)
    #expect(eventually { isThere(view.at("._notes.txt")) })
    // An editor saves.
    #expect(rename(view.at("notes"), view.at("notes~")) == 0)
    try put("new", at: view.at(".new"))
    #expect(rename(view.at(".new"), view.at("notes")) == 0)
    #expect(view.realListing() == ["notes.txt", "._notes.txt", "notes~.txt", "._notes~.txt"])
    #expect(status(view.real("._notes.txt")).map { $0.st_mode & 0o777 } == 0o600)
  }
}
