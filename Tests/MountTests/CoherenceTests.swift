import CLinux
import Glibc
import SystemPackage
import Testing

/// Changes made beside the mount. Every test looks at the view first, so that all that is cached is cached. The kernel hears
/// of such a change within a millisecond or so; a change made through the mount is there when the call returns.
@Suite(.mounting) struct CoherenceTests {
  private func view(_ options: String = "", build: (String) throws -> Void = { _ in }) throws -> MountedView {
    let view = try MountedView(options) { root in
      try put("old", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/Folder/inner.txt")
      try build(root)
    }
    look(view)
    return view
  }

  private func look(_ view: MountedView) {
    for directory in ["", "Folder"] {
      for name in view.listing(directory) { _ = text(view.at("\(directory)/\(name)")) }
    }
    for absent in ["letter", "letter.txt", "Folder/new"] { _ = isThere(view.at(absent)) }
  }

  @Test func fileCreatedInBackingTree_appears() throws {
    let view = try view()
    try put("new", at: view.real("letter.txt"))
    #expect(eventually { text(view.at("letter")) == "new" })
    #expect(eventually { text(view.at("letter.txt")) == "new" })
    #expect(eventually { view.listing() == ["notes", "letter", "Folder"] })
    try put("new", at: view.real("Folder/new"))
    #expect(eventually { view.listing("Folder") == ["inner", "new"] })
    #expect(eventually { text(view.at("Folder/new")) == "new" })
  }

  @Test func fileRemovedInBackingTree_disappears() throws {
    let view = try view()
    #expect(unlink(view.real("notes.txt")) == 0)
    #expect(eventually { !isThere(view.at("notes")) })
    #expect(eventually { !isThere(view.at("notes.txt")) })
    #expect(eventually { view.listing() == ["Folder"] })
    #expect(eventually { failure { open(view.at("notes"), O_RDONLY) } == .noSuchFileOrDirectory })
  }

  /// Makes a file by a name that another process has taken from another file. The kernel is notified of that a moment later.
  ///
  /// `DISPLAYFS_TAKEN_NAME_ROUNDS` says how often.
  ///
  /// - Parameters:
  ///   - kept: the expected content of the file `second` afterwards.
  ///   - take: takes the name `first` away, and prepares `second`.
  private func makeByTakenName(_ options: String, kept: String, take: (MountedView) throws -> Void) throws {
    let rounds = getenv("DISPLAYFS_TAKEN_NAME_ROUNDS").flatMap { Int(String(cString: $0)) } ?? 300
    let view = try view(options)
    for isHeld in [false, true] {
      for _ in 0..<rounds {
        try put("1", at: view.at("first"))
        let held = isHeld ? try OpenFile(view.at("first")) : nil
        try take(view)
        try put("3", at: view.at("first"))
        #expect(text(view.real("first")) == "3" && text(view.real("second")) == kept)
        #expect(held?.text() ?? "1" == "1")
        unlink(view.at("first"))
        unlink(view.at("second"))
      }
    }
  }

  @Test(arguments: ["", "profile=none", "passthrough=off", "profile=none,passthrough=off"])
  func create_byNameJustRemovedInBackingTree_makesNewFile(options: String) throws {
    try makeByTakenName(options, kept: "2") { view in
      unlink(view.real("first"))
      // The new file gets the inode number.
      try put("2", at: view.at("second"))
    }
  }

  @Test(arguments: ["", "profile=none", "passthrough=off", "profile=none,passthrough=off"])
  func create_byNameJustRenamedInBackingTree_makesNewFile(options: String) throws {
    try makeByTakenName(options, kept: "1") { view in
      rename(view.real("first"), view.real("second"))
      _ = status(view.at("second"))
    }
  }

  @Test func fileRemovedInBackingTree_isReopenedThroughDescriptor() throws {
    let view = try view()
    let file = try OpenFile(view.at("notes"))
    unlink(view.real("notes.txt"))
    let again = try OpenFile("/proc/self/fd/\(file.descriptor)", O_RDWR)
    #expect(again.text() == "old")
    #expect(eventually { !isThere(view.at("notes")) })
    #expect(try OpenFile("/proc/self/fd/\(file.descriptor)").text() == "old")
  }

  @Test func fileRenamedInBackingTree_appearsUnderNewName() throws {
    let view = try view()
    #expect(rename(view.real("notes.txt"), view.real("letter.txt")) == 0)
    #expect(eventually { !isThere(view.at("notes")) })
    #expect(eventually { text(view.at("letter")) == "old" })
    #expect(eventually { view.listing() == ["letter", "Folder"] })
    #expect(rename(view.real("letter.txt"), view.real("Folder/letter.txt")) == 0)
    #expect(eventually { view.listing() == ["Folder"] })
    #expect(eventually { view.listing("Folder") == ["inner", "letter"] })
  }

  @Test func fileReplacedInBackingTree_showsNewContent() throws {
    let view = try view()
    try put("quite new", at: view.real("temporary"))
    #expect(rename(view.real("temporary"), view.real("notes.txt")) == 0)
    #expect(eventually { text(view.at("notes")) == "quite new" })
    #expect(eventually { status(view.at("notes"))?.st_size == 9 })
    #expect(eventually { status(view.at("notes"))?.st_ino == status(view.real("notes.txt"))?.st_ino })
  }

  @Test func contentChangedInBackingTree_isShown() throws {
    let view = try view()
    let open = try OpenFile(view.at("notes"))
    #expect(eventually { open.text() == "old" })
    try put("longer than before", at: view.real("notes.txt"))
    #expect(eventually { text(view.at("notes")) == "longer than before" })
    #expect(eventually { status(view.at("notes"))?.st_size == 18 })
    #expect(eventually { open.text() == "longer than before" })
    try put("s", at: view.real("notes.txt"))
    #expect(eventually { status(view.at("notes"))?.st_size == 1 })
    #expect(eventually { open.text() == "s" })
  }

  @Test func writeInBackingTree_whileFileIsWrittenThroughMount_isShown() throws {
    let view = try view()
    let name = view.at("notes")
    let real = view.real("notes.txt")
    func append(_ descriptor: CInt) { #expect(write(descriptor, "x", 1) == 1) }
    func sameSize() -> Bool { status(name)?.st_size == status(real)?.st_size }
    let mine = open(name, O_WRONLY | O_APPEND)
    let theirs = open(real, O_WRONLY | O_APPEND)
    // Until the watch no longer reports each write to the open file.
    for _ in 0..<50 {
      append(mine)
      #expect(sameSize())
      usleep(1000)
    }
    for _ in 0..<20 {
      append(theirs)
      try #require(eventually(sameSize))
      append(mine)
      #expect(sameSize())
    }
    #expect(close(mine) == 0)
    // After the last close the watch reports each write again.
    for _ in 0..<20 {
      #expect(sameSize())
      append(theirs)
      try #require(eventually(sameSize))
    }
    #expect(close(theirs) == 0)
  }

  @Test func attributesChangedInBackingTree_areShown() throws {
    let view = try view()
    #expect(eventually { status(view.at("notes"))?.permissions == 0o644 })
    #expect(chmod(view.real("notes.txt"), 0o600) == 0)
    #expect(eventually { status(view.at("notes"))?.permissions == 0o600 })
    #expect(eventually { attribute("user.tag", of: view.at("notes")) == nil })
    if Machine.keepsExtendedAttributes {
      #expect(setAttribute("user.tag", to: Array("red".utf8), of: view.real("notes.txt")) == nil)
      #expect(eventually { attribute("user.tag", of: view.at("notes")) == "red" })
    }
    #expect(link(view.real("notes.txt"), view.real("second")) == 0)
    #expect(eventually { status(view.at("notes"))?.st_nlink == 2 })
  }

  @Test func hiddenListChangedInBackingTree_takesEffect() throws {
    let view = try view()
    try put("notes.txt\n", at: view.real(".hidden"))
    #expect(eventually { view.listing() == ["Folder"] })
    try put("Folder\n", at: view.real(".hidden"))
    #expect(eventually { view.listing() == ["notes"] })
    #expect(unlink(view.real(".hidden")) == 0)
    #expect(eventually { view.listing() == ["notes", "Folder"] })
  }

  @Test func hiddenListChangedThroughMount_takesEffectWhenCallReturns() throws {
    let view = try view()
    try put("notes.txt\n", at: view.at(".hidden"))
    #expect(view.listing() == ["Folder"])
    try put("Folder\n", at: view.at(".hidden"))
    #expect(view.listing() == ["notes"])
    #expect(unlink(view.at(".hidden")) == 0)
    #expect(view.listing() == ["notes", "Folder"])
  }

  /// What close(2) of one descriptor wrote counts although the daemon keeps the file open: the client has another descriptor.
  @Test func contentThatDecidesListing_takesEffectWhenCloseReturns() throws {
    let view = try view("language=en,desktop-names=on") { root in
      try put(TestTree.appleDouble(TestTree.finderInfo(0)), at: "\(root)/._notes.txt")
      try put("[Desktop Entry]\nName=Reader\n", at: "\(root)/a.desktop")
    }
    #expect(view.listing() == ["notes", "Folder", "Reader"])
    func write(_ bytes: [UInt8], to name: String, then body: () -> Void) throws {
      let file = Glibc.open(view.at(name), O_WRONLY | O_TRUNC)
      try #require(file >= 0)
      #expect(Glibc.write(file, bytes, bytes.count) == bytes.count)
      let other = dup(file)
      defer { close(other) }
      #expect(close(file) == 0)
      body()
    }
    try write(TestTree.appleDouble(TestTree.finderInfo(0x4000)), to: "._notes.txt") {
      #expect(view.listing() == ["Folder", "Reader"])
    }
    try write(Array("[Desktop Entry]\nName=Writer\n".utf8), to: "a.desktop") {
      #expect(view.listing() == ["Folder", "Writer"])
    }
  }

  @Test func localizationMarkerCreatedInBackingTree_takesEffect() throws {
    let view = try view("language=de,profile=macos") { root in makeDirectory("\(root)/Music") }
    #expect(eventually { view.listing() == ["notes", "Folder", "Music"] })
    try put("", at: view.real("Music/.localized"))
    #expect(eventually { view.listing() == ["notes", "Folder", "Musik"] })
    #expect(eventually { isThere(view.at("Musik/.localized")) })
    #expect(unlink(view.real("Music/.localized")) == 0)
    #expect(eventually { view.listing() == ["notes", "Folder", "Music"] })
    #expect(eventually { !isThere(view.at("Musik")) })
  }

  @Test func stringTableCreatedInBackingTree_takesEffect() throws {
    let view = try view("language=de") { root in makeDirectory("\(root)/Extra.localized") }
    #expect(eventually { view.listing().contains("Extra.localized") })
    try put("\"Extra\" = \"Zugabe\";\n", at: view.real("Extra.localized/.localized/de.strings"))
    #expect(eventually { view.listing().contains("Zugabe") })
    try put("\"Extra\" = \"Beigabe\";\n", at: view.real("Extra.localized/.localized/de.strings"))
    #expect(eventually { view.listing().contains("Beigabe") })
  }

  /// truncate(2) of a path closes no file.
  @Test func contentThatDecidesListing_whenTruncatedInBackingTree_takesEffect() throws {
    let view = try view("language=de") { root in
      try put("notes.txt\n", at: "\(root)/.hidden")
      try put("\"Extra\" = \"Zugabe\";\n", at: "\(root)/Extra.localized/.localized/de.strings")
    }
    #expect(view.listing() == ["Folder", "Zugabe"])
    #expect(truncate(view.real("Extra.localized/.localized/de.strings"), 0) == 0)
    #expect(eventually { view.listing() == ["Folder", "Extra"] })
    #expect(truncate(view.real(".hidden"), 0) == 0)
    #expect(eventually { view.listing() == ["notes", "Folder", "Extra"] })
  }

  @Test func localizationMarkerCreatedThroughMount_takesEffectWhenCallReturns() throws {
    let view = try view("language=de,profile=macos") { root in makeDirectory("\(root)/Music") }
    #expect(view.listing() == ["notes", "Folder", "Music"])
    try put("", at: view.at("Music/.localized"))
    #expect(view.listing() == ["notes", "Folder", "Musik"])
    #expect(unlink(view.at("Music/.localized")) == 0)
    #expect(view.listing() == ["notes", "Folder", "Music"])
  }

  @Test(.extendedAttributes) func finderFlagSetThroughMount_takesEffectWhenCallReturns() throws {
    let view = try view("profile=macos")
    let info = TestTree.finderInfo(0x4000)
    try #require(setAttribute("user.com.apple.FinderInfo", to: info, of: view.at("notes")) == nil)
    #expect(view.listing() == ["Folder"])
    #expect(removexattr(view.at("notes.txt"), "user.com.apple.FinderInfo") == 0)
    #expect(view.listing() == ["notes", "Folder"])
  }

  @Test(.extendedAttributes) func finderFlagSetInBackingTree_takesEffect() throws {
    let view = try view("profile=macos")
    let info = TestTree.finderInfo(0x4000)
    try #require(setAttribute("user.com.apple.FinderInfo", to: info, of: view.real("notes.txt")) == nil)
    #expect(eventually { view.listing() == ["Folder"] })
    #expect(removexattr(view.real("notes.txt"), "user.com.apple.FinderInfo") == 0)
    #expect(eventually { view.listing() == ["notes", "Folder"] })
  }

  @Test func directoryTurnedIntoPackage_isShownAsFile() throws {
    let view = try view { root in makeDirectory("\(root)/Tool.app") }
    #expect(eventually { status(view.at("Tool.app"))?.isDirectory == true })
    #expect(eventually { view.listing().contains("Tool.app") })
    try TestTree.application(view.real("Tool.app"), named: "Tool")
    #expect(eventually { view.listing().contains("Tool") })
    #expect(eventually { status(view.at("Tool"))?.isRegular == true })
  }

  /// A table of names that appears in a folder of its language, and a bundle that loses its content.
  @Test func applicationChangedInside_isShownSo() throws {
    let view = try MountedView("language=de") { root in
      for name in ["Tool", "Flat"] {
        try TestTree.application("\(root)/\(name).app", named: name, displayName: name)
      }
      makeDirectory("\(root)/Tool.app/Contents/Resources/de.lproj")
      makeDirectory("\(root)/Tool.app/Contents/Resources/en.lproj")
    }
    #expect(Set(view.listing()) == ["Tool", "Flat"])
    try put(
      "\"CFBundleDisplayName\" = \"Werkzeug\";\n",
      at: view.real("Tool.app/Contents/Resources/de.lproj/InfoPlist.strings"))
    #expect(eventually { Set(view.listing()) == ["Werkzeug", "Flat"] })
    for name in ["Tool", "Flat"] {
      #expect(rename(view.real("\(name).app/Contents"), view.real("\(name).app/Old")) == 0)
    }
    #expect(eventually { Set(view.listing()) == ["Tool.app", "Flat.app"] })
    #expect(eventually { status(view.at("Flat.app"))?.isDirectory == true })
    #expect(rename(view.real("Flat.app/Old"), view.real("Flat.app/Contents")) == 0)
    #expect(eventually { status(view.at("Flat"))?.isRegular == true })
  }

  /// A directory that programs look into gets a name of its own.
  @Test func directoryNamedInBackingTree_isShownByThatName() throws {
    let view = try MountedView("desktop-names=on,language=de") { root in makeDirectory("\(root)/folder/inner")
    }
    #expect(view.shell("ls -R").status == 0)
    try put("[Desktop Entry]\nType=Directory\nName[de]=Dings\n", at: view.real("folder/.directory"))
    #expect(eventually { view.listing() == ["Dings"] })
    #expect(unlink(view.real("folder/.directory")) == 0)
    #expect(eventually { view.listing() == ["folder"] })
  }

  @Test func directoryReplacedInBackingTree_showsNewContents() throws {
    let view = try view()
    for round in 0..<10 {
      #expect(rename(view.real("Folder"), view.real("Old\(round)")) == 0)
      try put("y", at: view.real("Folder/other\(round).txt"))
      #expect(eventually { view.listing("Folder") == [FileName("other\(round)")] })
      #expect(eventually { text(view.at("Folder/other\(round)")) == "y" })
      #expect(eventually { !isThere(view.at("Folder/inner")) })
      #expect(eventually { view.listing("Old0") == ["inner"] })
    }
  }

  @Test func fileReplacedByDirectoryInBackingTree_isShownAsDirectory() throws {
    let view = try view()
    #expect(unlink(view.real("notes.txt")) == 0)
    makeDirectory(view.real("notes.txt/inside"))
    #expect(eventually { status(view.at("notes.txt"))?.isDirectory == true })
    #expect(eventually { view.listing("notes.txt") == ["inside"] })
  }

  /// When a reply gives an inode another type, the kernel marks that inode bad: its open descriptors would get EIO.
  @Test(.reusedInodeNumbers, arguments: ["", "profile=none"])
  func removedFile_whenInodeNumberIsReused_isNotMistakenForNewEntry(_ options: String) throws {
    let view = try MountedView(options)
    // On a busy file system another program may get the number.
    #expect(try (0..<20).contains { try reuseInodeNumber(view, in: "Folder\($0)") })
  }

  /// - Returns: whether the inode number of a file that was removed was given to other entries of the directory.
  private func reuseInodeNumber(_ view: MountedView, in folder: String) throws -> Bool {
    try put("x", at: view.real("\(folder)/file"))
    try waitUntil { isThere(view.at("\(folder)/file")) }
    let held = try OpenFile(view.at("\(folder)/file"), dfs_O_PATH)
    let number = held.status.st_ino
    #expect(unlink(view.real("\(folder)/file")) == 0)
    // Those that get another number are kept, so that the free ones become fewer.
    func first(_ name: String, _ make: (String) -> CInt) -> String? {
      (0..<256).lazy.map { "\(folder)/\(name)\($0)" }
        .first { make($0) == 0 && status(view.real($0))?.st_ino == number }
    }
    guard let heir = first("link", { symlink("nowhere", view.real($0)) }) else { return false }
    var gone = stat()
    #expect(eventually { failure { fstat(held.descriptor, &gone) } == Errno(rawValue: ESTALE) })
    let link = try OpenFile(view.at(heir), dfs_O_PATH | O_NOFOLLOW)
    #expect(eventually { link.status.st_mode & S_IFMT == S_IFLNK })
    #expect(eventually { failure { fstat(held.descriptor, &gone) } == Errno(rawValue: ESTALE) })
    // And the other way round, through the mount.
    #expect(unlink(view.real(heir)) == 0)
    guard let pipe = first("pipe", { mkfifo(view.at($0), 0o644) }) else { return false }
    #expect(eventually { failure { fstat(link.descriptor, &gone) } == Errno(rawValue: ESTALE) })
    #expect(eventually { status(view.at(pipe)).map { $0.st_mode & S_IFMT } == S_IFIFO })
    return true
  }

  @Test func nameClash_whenSiblingsChange_isResolvedAgain() throws {
    let view = try view()
    try put("md", at: view.real("notes.pdf"))
    #expect(eventually { view.listing() == ["notes.txt", "notes.pdf", "Folder"] })
    #expect(eventually { !isThere(view.at("notes")) })
    #expect(unlink(view.real("notes.txt")) == 0)
    #expect(eventually { view.listing() == ["notes", "Folder"] })
    #expect(eventually { text(view.at("notes")) == "md" })
  }

  @Test func manyChangesInBackingTree_leaveNothingStale() throws {
    let view = try view()
    for round in 0..<60 {
      try put("\(round)", at: view.real("round\(round).txt"))
      if round >= 10 { unlink(view.real("round\(round - 10).txt")) }
      if round % 7 == 0 {
        let first = max(0, round - 9)
        let expected = Set((first...round).map { FileName("round\($0)") }).union(["notes", "Folder"])
        #expect(eventually { view.listing().difference(from: expected) == nil })
      }
      #expect(eventually { text(view.at("round\(round)")) == "\(round)" })
    }
  }
}
