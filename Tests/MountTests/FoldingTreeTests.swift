import Glibc
import Testing

/// Views of a tree that folds case, as some file systems do: here that is a view with `matching=caseless`.
@Suite(.mounting, .asRoot) struct FoldingTreeTests {
  /// A view of a folding tree. It compares names by their bytes, unless they are canonical equivalents.
  private final class Views {
    let tree: MountedView
    private let place: TemporaryDirectory
    var root: String { place.root }

    init(_ options: String = "", build: (String) throws -> Void) throws {
      tree = try MountedView("matching=caseless,extensions=show,hidden=show", build: build)
      place = try TemporaryDirectory()
      let mounted = Displayfs.run(
        ["mount", "-o", "language=en,extensions=show,\(options)", tree.mountPoint, place.root])
      if mounted.status != 0 { throw MountedView.MountFailure(description: mounted.complaint) }
    }

    func at(_ name: String) -> String { place.path(name) }

    deinit { _ = Displayfs.run(["unmount", place.root]) }
  }

  /// It refuses to create what it has in another case, and would open that by the refused name.
  @Test func creationThatTreeRefuses_makesNoEntry() throws {
    let views = try Views("hidden=deny") { root in
      try put("x", at: "\(root)/folder/file")
      try put("x", at: "\(root)/secret")
      try put("secret\n", at: "\(root)/.hidden")
    }
    #expect(names(views.root) == ["folder"])
    #expect(failure { mkdir(views.at("FOLDER"), 0o755) } == .fileExists)
    #expect(failure { open(views.at("SECRET"), O_CREAT | O_WRONLY, 0o644) } == .fileExists)
    #expect(names(views.root) == ["folder"])
    #expect(failure { open(views.at("FOLDER/file"), O_RDONLY) } == .noSuchFileOrDirectory)
    #expect(failure { open(views.at("SECRET"), O_RDONLY) } == .noSuchFileOrDirectory)
  }

  @Test func fileOpenedByAnotherCase_isListedOnce() throws {
    let views = try Views { root in try put("old", at: "\(root)/file.txt") }
    #expect(names(views.root) == ["file.txt"])
    let file = open(views.at("FILE.TXT"), O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    #expect(file >= 0 && write(file, "new", 3) == 3)
    #expect(names(views.root) == ["file.txt"])
    close(file)
    #expect(names(views.root) == ["file.txt"])
    #expect(text(views.at("file.txt")) == "new" && names(views.tree.source) == ["file.txt"])
    #expect(unlink(views.at("file.txt")) == 0 && names(views.root) == [])
    #expect(!isThere(views.at("FILE.TXT")))
  }

  /// The tree lists a decomposed name composed, and finds it by both forms, as HFS+ does.
  @Test(arguments: ["canonical", "caseless"]) func fileOfDecomposedName_isListedOnceAfterChangesByBothForms(
    matching: String
  )
    throws
  {
    let views = try Views("matching=\(matching)") { root in try put("x", at: "\(root)/other") }
    let (nfc, nfd) = ("\u{e9}", "e\u{301}")
    func listing() -> Set<FileName> { names(views.root) }
    #expect(listing() == ["other"])
    try put("new", at: views.at(nfd))
    #expect(listing() == ["other", FileName(nfc)])
    for (old, new) in [(nfc, "moved"), ("moved", nfc), (nfc, "moved"), ("moved", nfd)] {
      #expect(rename(views.tree.at(old), views.tree.at(new)) == 0)
      let expected: Set<FileName> = ["other", new == nfd ? FileName(nfc) : FileName(new)]
      #expect(eventually { listing() == expected }, "\(old) to \(new): \(listing())")
    }
    for (old, new) in [(nfc, "moved"), ("moved", nfd), (nfd, "moved"), ("moved", nfc)] {
      #expect(rename(views.at(old), views.at(new)) == 0)
      let expected: Set<FileName> = ["other", new == nfd ? FileName(nfc) : FileName(new)]
      #expect(listing() == expected && text(views.at(new)) == "new", "\(old) to \(new): \(listing())")
    }
    #expect(unlink(views.at(nfd)) == 0 && listing() == ["other"])
  }

  @Test func fileReplacedByAnotherCase_isListedOnce() throws {
    let views = try Views { root in
      try put("old", at: "\(root)/file.txt")
      try put("new", at: "\(root)/other")
    }
    #expect(names(views.root) == ["file.txt", "other"])
    #expect(rename(views.at("other"), views.at("FILE.TXT")) == 0)
    #expect(names(views.root) == ["file.txt"] && text(views.at("file.txt")) == "new")
  }
}
