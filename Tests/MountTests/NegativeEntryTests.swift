import Glibc
import Testing

/// That a name stands for nothing the kernel keeps, until it stands for something.
@Suite(.mounting) struct NegativeEntryTests {
  private func view(_ options: String = "") throws -> MountedView {
    try MountedView(options) { root in try put("text", at: "\(root)/notes.txt") }
  }

  /// Looks each name up twice: the first lookup may be in a directory that is not watched yet, and is not cacheable then.
  private func expectAbsent(_ view: MountedView, _ names: String...) {
    for name in names + names { #expect(!isThere(view.at(name)), "\(name)") }
  }

  @Test(
    arguments: ["", "hidden=show", "extensions=show", "profile=none"],
    ["letter", "letter.txt", "stdio.h", "Letter.rtfd", ".config"])
  func absentName_lookedUpAgain_needsNoRequest(options: String, name: String) throws {
    let view = try view(options)
    expectAbsent(view, name)
    let before = try view.requestCount()
    for _ in 0..<100 { #expect(!isThere(view.at(name))) }
    #expect(try view.requestCount() - before < 10)
  }

  @Test func createdEntry_whenCallReturns_isVisibleByAllNames() throws {
    let view = try view()
    expectAbsent(view, "letter", "letter.txt", "Letter", "moved", "moved.jpg", "link", "link.txt")
    try put("x", at: view.at("letter.txt"))
    #expect(text(view.at("letter")) == "x")
    #expect(mkdir(view.at("Letter.rtfd"), 0o755) == 0)
    #expect(isThere(view.at("Letter")))
    #expect(rename(view.at("letter"), view.at("moved.jpg")) == 0)
    #expect(text(view.at("moved")) == "x" && !isThere(view.at("letter")))
    #expect(link(view.at("notes"), view.at("link")) == 0)
    #expect(text(view.at("link.txt")) == "text" && text(view.at("link")) == "text")
  }

  /// Whether an entry can be opened or, where the kernel looks up the names that clients give, stat'ed.
  ///
  /// Before Linux 6.14, a path walk that met a dentry just before a replay renamed it looks up the new name. Opening is refused
  /// then, and walks again, but attributes are read.
  private func canBeReached(_ path: String) -> Bool {
    kernelRelease.lexicographicallyPrecedes([6, 14]) ? text(path) != nil : isThere(path)
  }

  @Test func displayName_whenRivalLeaves_isVisibleWhenCallReturns() throws {
    let view = try view()
    for _ in 0..<100 {
      var change = ContinuousClock.now
      try put("other", at: view.at("notes.pdf"))
      expectWalk(since: change) { !canBeReached(view.at("notes")) }
      expectAbsent(view, "notes")
      change = .now
      #expect(unlink(view.at("notes.pdf")) == 0)
      expectWalk(since: change) { text(view.at("notes")) == "text" }
      change = .now
      try put("other", at: view.at("notes.pdf"))
      expectWalk(since: change) { !canBeReached(view.at("notes")) }
      expectAbsent(view, "notes")
      change = .now
      #expect(rename(view.at("notes.pdf"), view.at("elsewhere.pdf")) == 0)
      expectWalk(since: change) { text(view.at("notes")) == "text" }
      #expect(text(view.at("elsewhere")) == "other")
      #expect(unlink(view.at("elsewhere")) == 0)
    }
  }

  @Test func savedFile_withRestoredName_isVisibleByRealName() throws {
    let view = try view()
    for round in 0..<5 {
      #expect(rename(view.at("notes"), view.at("backup")) == 0)
      expectAbsent(view, "notes.txt", "notes")
      try put("saved \(round)", at: view.at("notes"))
      #expect(text(view.at("notes.txt")) == "saved \(round)" && text(view.at("notes")) == "saved \(round)")
      #expect(unlink(view.at("backup")) == 0)
    }
  }

  @Test func entryCreatedInBackingTree_becomesVisibleByAllNames() throws {
    let view = try view()
    for round in 0..<10 {
      expectAbsent(view, "letter", "letter.txt", "Folder")
      try put("\(round)", at: view.real("letter.txt"))
      #expect(mkdir(view.real("Folder"), 0o755) == 0)
      #expect(
        eventually { text(view.at("letter")) == "\(round)" && text(view.at("letter.txt")) == "\(round)" })
      #expect(eventually { isThere(view.at("Folder")) })
      #expect(unlink(view.real("letter.txt")) == 0 && rmdir(view.real("Folder")) == 0)
      #expect(
        eventually {
          !isThere(view.at("letter")) && !isThere(view.at("letter.txt")) && !isThere(view.at("Folder"))
        })
    }
  }

  @Test(arguments: ["", "profile=none"]) func entryMovedAwayAndBackInBackingTree_becomesVisible(
    options: String
  ) throws {
    let view = try view(options)
    #expect(mkdir(view.real("Folder"), 0o755) == 0)
    // So the kernel knows them all the while.
    let held = ["notes.txt", "Folder"].map { open(view.at($0), 0o10000000 /* O_PATH */) }
    for name in ["notes.txt", "Folder"] {
      #expect(eventually { isThere(view.at(name)) })
      #expect(rename(view.real(name), view.real("away")) == 0)
      #expect(eventually { !isThere(view.at(name)) })
      expectAbsent(view, name)
      #expect(rename(view.real("away"), view.real(name)) == 0)
      #expect(eventually { isThere(view.at(name)) }, "\(name)")
    }
    for descriptor in held { close(descriptor) }
  }

  @Test func optionChange_makesAbsentNameVisible() throws {
    let view = try view("extensions=show")
    expectAbsent(view, "notes")
    #expect(Displayfs.run(["set", view.mountPoint, "extensions=hide"]).status == 0)
    #expect(eventually { text(view.at("notes")) == "text" })
  }

  @Test func createAfterFailedLookup_keepsOtherNamesCached() throws {
    let view = try MountedView { root in
      for number in 0..<50 { try put("x", at: "\(root)/known\(number).txt") }
    }
    func look() { for number in 0..<50 { #expect(isThere(view.at("known\(number)"))) } }
    look()
    look()
    let before = try view.requestCount()
    for number in 0..<20 {
      // Looked for by that name, and made by it.
      expectAbsent(view, "new\(number).txt")
      try put("x", at: view.at("new\(number).txt"))
      look()
    }
    #expect(try view.requestCount() - before < 20 * 50 / 2)
  }

  @Test func absentNames_beyondCacheCapacity_becomeVisibleWhenCreated() throws {
    let view = try view()
    for number in 0..<1500 { #expect(!isThere(view.at("absent\(number)"))) }
    for number in [0, 1023, 1024, 1499] {
      try put("\(number)", at: view.at("absent\(number).txt"))
      #expect(text(view.at("absent\(number)")) == "\(number)")
    }
  }
}
