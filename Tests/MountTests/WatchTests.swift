import CLinux
import Glibc
import SystemPackage
import Testing

/// The inotify events that programs get when they watch the mount.
@Suite(.mounting) struct WatchTests {
  /// A view with all its directories listed, as by a file manager that watches them.
  private func view(_ options: String = "", _ build: (String) throws -> Void) throws -> MountedView {
    let view = try MountedView(options, build: build)
    for name in view.listing() { _ = view.listing("\(name)") }
    return view
  }

  /// As root the daemon receives events from fanotify, and from inotify for other file systems in the tree.
  @Test(.asRoot) func changesOnNestedFileSystem_areReported() throws {
    let view = try MountedView { root in makeDirectory("\(root)/Disk") }
    #expect(Displayfs.run(["status", view.mountPoint]).text.contains("changes heard of: by fanotify\n"))
    try #require(Shell.run("mount -t tmpfs none '\(view.real("Disk"))'").status == 0)
    defer { _ = Shell.run("umount -l '\(view.real("Disk"))'") }
    #expect(view.listing() == ["Disk"] && view.listing("Disk") == [])
    let watcher = try InotifyWatcher(view.mountPoint, view.at("Disk"))
    try put("x", at: view.real("Disk/notes.txt"))
    #expect(watcher.reportsChanges("create notes"))
    rename(view.real("Disk/notes.txt"), view.real("Disk/letter.txt"))
    #expect(watcher.reportsChanges("from notes", "to letter"))
    #expect(watcher.isOneRename("notes", "letter"))
    try put("x", at: view.real("beside.txt"))
    #expect(watcher.reportsChanges("create beside"))
  }

  /// Whatever happens in the tree within a millisecond: a window that follows the events shows what is there.
  @Test(arguments: [
    ["mkdir w/a"],
    ["rm w/photo.jpg", "make w/photo.png", "make w/photo.txt"],
    ["mv w/log.3 w/log.4", "mv w/log.2 w/log.3", "mv w/log.1 w/log.2", "mv w/log.0 w/log.1", "make w/log.0"],
    ["make w/notes.tmp", "mv w/notes.txt w/notes.bak", "mv w/notes.tmp w/notes.txt"],
    ["mv w/log.0 o/log.0", "make w/log.0"],
    ["mv w/log.0 w/t", "mv w/log.1 w/log.0", "mv w/t w/log.1"],
    ["mv w/log.0 t", "mv o/other w/log.0", "mv t o/other"],
    ["mv w/a.jpg w/log.3", "rm w/log.3"],
  ])
  func windowThatFollowsEvents_showsTheListing(changes: [String]) throws {
    let files = ["a.jpg", "photo.jpg", "notes.txt", "log.0", "log.1", "log.2", "log.3"]
    let view = try view("") { root in
      for file in files { try put("x", at: "\(root)/w/\(file)") }
      try put("x", at: "\(root)/o/other")
    }
    func listing() -> Set<String> { Set(view.listing("w").map(\.description)) }
    let listed = listing()
    let watcher = try InotifyWatcher(view.at("w"))
    for change in changes {
      let words = change.split(separator: " ").map(String.init)
      let paths = words.dropFirst().map(view.real)
      switch words[0] {
      case "mkdir": mkdir(paths[0], 0o755)
      case "make": close(open(paths[0], O_WRONLY | O_CREAT | O_EXCL, 0o644))
      case "mv": rename(paths[0], paths[1])
      default: unlink(paths[0])
      }
    }
    // What comes last, at another look at the directory.
    usleep(20_000)
    mkdir(view.real("w/end"), 0o755)
    try #require(watcher.reportsChanges("create end"))
    #expect(eventually { watcher.names(from: listed) == listing() }, "\(watcher.reportedEvents)")
  }

  /// The kernel itself reports what is done through the view. A link gives the file another status change time.
  @Test func hardLink_isNoWriteByAnotherProcess() throws {
    let view = try view("") { makeDirectory("\($0)/w") }
    for number in 0..<10 {
      let watcher = try InotifyWatcher(view.at("w"))
      try put("x", at: view.at("w/\(number).c"))
      #expect(link(view.at("w/\(number).c"), view.at("w/link\(number).c")) == 0)
      usleep(20_000)
      mkdir(view.at("w/end\(number)"), 0o755)
      try #require(watcher.reportsChanges("create end\(number)"))
      let events = watcher.reportedEvents.filter { $0.hasSuffix(" \(number).c") }
      #expect(events == ["create \(number).c", "written \(number).c"])
    }
  }

  /// An ordinary user has fanotify too, without root's rights (Linux 5.13).
  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func changesInUserMount_areReportedByFanotify() throws {
    let view = try MountedView { root in
      makeDirectory("\(root)/Folder")
      try put("x", at: "\(root)/Folder/notes.txt")
      _ = Shell.run("chown -R \(OrdinaryUser.owner) '\(root)'")
    }
    view.unmount()
    try #require(OrdinaryUser.mount(view).status == 0)
    func shell(_ script: String) -> String { OrdinaryUser.shell(OrdinaryUser.owner, view, script).text }
    #expect(shell("'\(Displayfs.path)' status . | grep heard") == "changes heard of: by fanotify")
    #expect(shell("ls Folder; cat Folder/notes") == "notes\nx")
    try put("y", at: view.real("Folder/letter.txt"))
    rename(view.real("Folder/notes.txt"), view.real("Folder/other.txt"))
    #expect(shell("ls Folder") == "letter\nother")
    // A client keeps the directory, so the daemon keeps its descriptor, while another directory gets its name.
    let replace =
      "rm -r '\(view.real("Folder"))' && mkdir '\(view.real("Folder"))' && echo z >'\(view.real("Folder/new.txt"))'"
    #expect(
      shell("cd Folder; ls; \(replace); ls; ls ../Folder; cat ../Folder/new") == "letter\nother\nnew\nz")
  }

  /// The watches of an ordinary user's fanotify keep a descriptor each, and where there are few, inotify takes the rest.
  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func changesInMoreDirectoriesThanDescriptors_areReported() throws {
    let view = try MountedView { root in
      for number in 0..<100 { try put("x", at: "\(root)/\(number)/notes.txt") }
      _ = Shell.run("chown -R \(OrdinaryUser.owner) '\(root)'")
    }
    view.unmount()
    try #require(OrdinaryUser.mount(view, limit: ["prlimit", "--nofile=256:256"]).status == 0)
    func shell(_ script: String) -> String { OrdinaryUser.shell(OrdinaryUser.owner, view, script).text }
    #expect(shell("ls -l * | grep -c notes") == "100")
    let daemon = try #require(view.daemon)
    let byInotify = Shell.run("cat /proc/\(daemon)/fdinfo/* | grep -c '^inotify wd'").text
    #expect((50..<100).contains(Int(byInotify) ?? 0), "\(byInotify)")
    #expect(shell("'\(Displayfs.path)' status . | grep heard") == "changes heard of: by fanotify and inotify")
    _ = Shell.run("cd '\(view.source)'; for d in *; do mv $d/notes.txt $d/other.txt; done")
    #expect(shell("ls -l * | grep -c other; ls -l * | grep -c notes") == "100\n0")
    #expect(shell("for d in *; do echo new >$d/own.txt; done; cat */own | wc -l") == "100")
  }

  /// fanotify leaves out the writes to an open file, and an ordinary user cannot undo that where the file is not readable any more.
  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func writesInSource_toFileMadeUnreadableWhileOpen_areSeen() throws {
    let view = try MountedView { root in _ = Shell.run("chown \(OrdinaryUser.owner) '\(root)'") }
    view.unmount()
    try #require(OrdinaryUser.mount(view).status == 0)
    let group = OrdinaryUser.identifier.flatMap { getpwuid($0)?.pointee.pw_gid } ?? 0
    let outcome = PythonProgram(
      """
      os.setgroups([]); os.setgid(\(group)); os.setuid(\(OrdinaryUser.identifier ?? 0))
      os.chdir('''\(view.mountPoint)''')
      file = os.open("log.bin", os.O_WRONLY | os.O_CREAT, 0o600)
      for _ in range(50):
        os.write(file, b"x" * 100)
        time.sleep(0.005)
      os.chmod("log.bin", 0o200)
      os.close(file)
      below = os.open('''\(view.real("log.bin"))''', os.O_WRONLY | os.O_APPEND)
      for size in range(6000, 11000, 1000):
        os.stat("log.bin")
        os.write(below, b"y" * 1000)
        time.sleep(0.2)
        if os.stat("log.bin").st_size != size: print(os.stat("log.bin").st_size, "and not", size)
      """
    ).run()
    #expect(outcome.text == "" && outcome.status == 0, "\(outcome.complaint)")
  }

  @Test func changesThroughMount_areReported() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("new", at: view.at("letter"))
    #expect(rename(view.at("notes"), view.at("other")) == 0)
    #expect(unlink(view.at("other")) == 0)
    #expect(
      watcher.reportsChanges("create letter", "written letter", "from notes", "to other", "delete other"))
  }

  /// The directories are gone before the removal of what was in them can be replayed.
  /// Also when the first change in one directory is followed by the removal of another one in it.
  @Test(arguments: [[], ["beside.txt"]], 0..<5)
  func treeRemovedInBackingTree_isReportedEntryByEntry(first: [String], round: Int) throws {
    let view = try view { root in
      for number in 0..<5 { try put("x", at: "\(root)/Folder/Sub/note \(number).txt") }
      try put("x", at: "\(root)/Folder/beside.txt")
    }
    _ = view.listing("Folder/Sub")
    let watcher = try InotifyWatcher(view.mountPoint, view.at("Folder"), view.at("Folder/Sub"))
    let paths = (first.map { "Folder/\($0)" } + ["Folder"]).map { "'\(view.real($0))'" }
    #expect(Shell.run("rm -r \(paths.joined(separator: " "))").status == 0)
    #expect(watcher.reportsChanges("delete Folder"))
    let expected = (0..<5).map { "delete note \($0)" } + ["delete Sub", "delete beside", "delete Folder"]
    #expect(Set(watcher.reportedEvents).isSuperset(of: expected), "\(watcher.reportedEvents)")
    // New directories of the same names, perhaps with the same inode numbers, are others.
    try put("y", at: view.real("Folder/Sub/note 0.txt"))
    #expect(eventually { text(view.at("Folder/Sub/note 0")) == "y" })
    #expect(view.listing("Folder") == ["Sub"])
  }

  /// By its look-ups the kernel knows at once that the entry is gone, before the daemon replays that.
  @Test func entryThatClientLooksUp_isReportedWhenItIsRemoved() throws {
    let view = try view { _ in }
    let watcher = try InotifyWatcher(view.mountPoint)
    _ = view.listing()
    let client = PythonProgram(
      """
      open('\(view.at("begun"))', "w").close()
      while True:
          os.path.exists('\(view.at("notes"))')
          time.sleep(0.001)
      """
    ).start()
    defer {
      // Not SIGKILL: timeout(1), which runs it, would leave it behind.
      client.send(SIGTERM)
      client.wait()
    }
    #expect(watcher.reportsChanges("create begun"))
    for _ in 0..<20 {
      try put("x", at: view.real("notes.txt"))
      #expect(watcher.reportsChanges("create notes"))
      // The client looks at the file.
      usleep(20_000)
      unlink(view.real("notes.txt"))
      #expect(watcher.reportsChanges("delete notes"))
      watcher.reset()
    }
  }

  @Test func changesInBackingTree_areReportedWithDisplayNames() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("new", at: view.real("letter.txt"))
    #expect(watcher.reportsChanges("create letter", "written letter"))
    #expect(rename(view.real("notes.txt"), view.real("other.txt")) == 0)
    #expect(watcher.reportsChanges("from notes", "to other"))
    #expect(watcher.isOneRename("notes", "other"))
    #expect(chmod(view.real("other.txt"), 0o600) == 0)
    #expect(watcher.reportsChanges("attributes other"))
    #expect(unlink(view.real("other.txt")) == 0)
    #expect(watcher.reportsChanges("delete other"))
    #expect(!watcher.reportedEvents.contains("delete letter"))
    #expect(text(view.at("letter")) == "new")
  }

  @Test func changesOfEveryKindOfEntry_areReported() throws {
    let view = try view { _ in }
    let watcher = try InotifyWatcher(view.mountPoint)
    makeDirectory(view.real("Folder"))
    #expect(symlink("nowhere", view.real("link")) == 0)
    #expect(mkfifo(view.real("pipe"), 0o600) == 0)
    #expect(watcher.reportsChanges("create Folder", "create link", "create pipe"))
    #expect(rmdir(view.real("Folder")) == 0)
    #expect(unlink(view.real("link")) == 0)
    #expect(unlink(view.real("pipe")) == 0)
    #expect(watcher.reportsChanges("delete Folder", "delete link", "delete pipe"))
  }

  /// The kernel requires all passthrough opens of a file to be alike. The open that reports a change is not one of them.
  @Test func openFile_writtenInBackingTree_isReportedAsWritten() throws {
    let view = try view { root in try put("0123456789", at: "\(root)/notes.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    let reading = try OpenFile(view.at("notes"))
    #expect(reading.text() == "0123456789")
    for content in ["other", "longer than it was before", ""] {
      try put(content, at: view.real("notes.txt"))
      // Programs that use GLib rely on the attribute event.
      #expect(watcher.reportsChanges("written notes", "attributes notes"))
      watcher.reset()
      #expect(reading.text() == content)
      #expect(text(view.at("notes")) == content)
    }
    // The report of a change must not be reported as a change itself.
    try put("end", at: view.real("end"))
    #expect(watcher.reportsChanges("written end"))
    #expect(watcher.reportedEvents.count { $0 == "written notes" } <= 2, "\(watcher.reportedEvents)")
    let writing = try OpenFile(view.at("notes"), O_RDWR)
    #expect(writing.write("through the mount", at: 0) == 17)
    #expect(text(view.real("notes.txt")) == "through the mount")
    #expect(rename(view.real("notes.txt"), view.real("other.txt")) == 0)
    #expect(watcher.reportsChanges("from notes", "to other"))
    #expect(writing.write("T", at: 0) == 1 && reading.text() == "Through the mount")
  }

  @Test func moveToAnotherDirectory_isReportedAsOneRename() throws {
    let view = try view { root in
      try put("x", at: "\(root)/notes.txt")
      makeDirectory("\(root)/Folder")
    }
    let watcher = try InotifyWatcher(view.mountPoint, view.at("Folder"))
    #expect(rename(view.real("notes.txt"), view.real("Folder/notes.txt")) == 0)
    #expect(watcher.reportsChanges("from notes", "to notes"))
    #expect(watcher.isOneRename("notes", "notes"))
    #expect(rename(view.real("Folder"), view.real("Other")) == 0)
    #expect(watcher.reportsChanges("from Folder", "to Other"))
    // An existing watch of the directory still reports events.
    try put("y", at: view.real("Other/letter.txt"))
    #expect(watcher.reportsChanges("create letter"))
  }

  @Test func safeSaveInBackingTree_isReportedAsOneRename() throws {
    let view = try view { root in try put("old", at: "\(root)/notes.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("new", at: view.real("notes.tmp"))
    #expect(watcher.reportsChanges("create notes.tmp"))
    #expect(rename(view.real("notes.tmp"), view.real("notes.txt")) == 0)
    #expect(watcher.reportsChanges("from notes.tmp", "to notes"))
    #expect(watcher.isOneRename("notes.tmp", "notes"))
    #expect(text(view.at("notes")) == "new")
  }

  @Test func changeOfDisplayName_isReportedAsRename() throws {
    let view = try view { root in try put("x", at: "\(root)/report.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("y", at: view.real("report.pdf"))
    #expect(watcher.reportsChanges("create report.pdf", "from report", "to report.txt"))
    #expect(watcher.isOneRename("report", "report.txt"))
    #expect(view.listing() == ["report.txt", "report.pdf"])
    #expect(unlink(view.real("report.pdf")) == 0)
    #expect(watcher.reportsChanges("delete report.pdf", "from report.txt", "to report"))
    #expect(view.listing() == ["report"])
  }

  @Test func changeOfDisplayNameOfSibling_isReportedAsRename() throws {
    let view = try view { root in try put("x", at: "\(root)/report.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("y", at: view.at("report.pdf"))
    #expect(watcher.reportsChanges("create report.pdf", "from report", "to report.txt"))
  }

  @Test func localizationMarker_isReportedAsRenameOfFolder() throws {
    let view = try view("language=de,profile=macos") { root in makeDirectory("\(root)/Music") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("", at: view.real("Music/.localized"))
    #expect(watcher.reportsChanges("from Music", "to Musik"))
    #expect(unlink(view.real("Music/.localized")) == 0)
    #expect(watcher.reportsChanges("from Musik", "to Music"))
  }

  @Test func editedStringTable_isReportedAsRenameOfFolder() throws {
    let view = try view("language=de") { root in
      try put("\"Extra\" = \"Zugabe\";\n", at: "\(root)/Extra.localized/.localized/de.strings")
    }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("\"Extra\" = \"Beigabe\";\n", at: view.real("Extra.localized/.localized/de.strings"))
    #expect(watcher.reportsChanges("to Beigabe"))
    #expect(view.listing() == ["Beigabe"])
  }

  @Test func editedHiddenList_isReportedAsDeletionAndCreation() throws {
    let view = try view { root in
      try put("x", at: "\(root)/notes.txt")
      makeDirectory("\(root)/Folder")
    }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("notes.txt\nFolder\n", at: view.real(".hidden"))
    #expect(watcher.reportsChanges("delete notes"))
    if Machine.looksUpStableNames { #expect(watcher.reportsChanges("delete Folder")) }
    // The directory stays for programs that work in it.
    #expect(view.listing().isEmpty && isThere(view.at("Folder")))
    #expect(unlink(view.real(".hidden")) == 0)
    #expect(watcher.reportsChanges("create notes"))
    if Machine.looksUpStableNames { #expect(watcher.reportsChanges("create Folder")) }
    #expect(view.listing() == ["notes", "Folder"])
    #expect(text(view.at("notes")) == "x")
  }

  @Test func directoryTurnedIntoPackage_isReportedAsCreation() throws {
    let view = try view { root in makeDirectory("\(root)/Tool.app") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try TestTree.application(view.real("Tool.app"), named: "Tool")
    #expect(watcher.reportsChanges("create Tool"))
    #expect(view.listing() == ["Tool"])
    #expect(status(view.at("Tool"))?.isRegular == true)
  }

  @Test func changesThroughMount_areReportedOnce() throws {
    let view = try view { root in try put("x", at: "\(root)/notes.txt") }
    let watcher = try InotifyWatcher(view.mountPoint)
    try put("new", at: view.at("letter"))
    #expect(chmod(view.at("letter"), 0o600) == 0)
    _ = setAttribute("user.tag", to: Array("red".utf8), of: view.at("letter"))
    #expect(rename(view.at("notes"), view.at("other")) == 0)
    #expect(unlink(view.at("other")) == 0)
    makeDirectory(view.at("Folder"))
    // A repeated report of the changes above would arrive before this event.
    try put("end", at: view.real("end"))
    #expect(watcher.reportsChanges("written end"))
    for word in [
      "create letter", "written letter", "from notes", "to other", "delete other", "create Folder",
    ] {
      #expect(watcher.reportedEvents.count { $0 == word } == 1, "\(word) in \(watcher.reportedEvents)")
    }
  }

  @Test func readOnlyView_afterChangesInBackingTree_isCurrent() throws {
    let view = try view("ro") { root in try put("x", at: "\(root)/notes.txt") }
    try put("new", at: view.real("letter.txt"))
    #expect(unlink(view.real("notes.txt")) == 0)
    #expect(view.listing() == ["letter"])
    #expect(text(view.at("letter")) == "new")
  }

  @Test func burstOfChanges_isListedAndLaterChangesAreReported() throws {
    let view = try view { _ in }
    let watcher = try InotifyWatcher(view.mountPoint)
    for number in 0..<3000 { try put("", at: view.real("f\(number)")) }
    #expect(view.listing().count == 3000)
    for number in 0..<3000 { unlink(view.real("f\(number)")) }
    #expect(view.listing().isEmpty)
    // Later changes are reported one by one again, as soon as the burst is processed.
    var calm: [String] = []
    for attempt in 0..<30 where !calm.contains(where: watcher.reportedEvents.contains) {
      try put("", at: view.real("calm\(attempt)"))
      calm.append("create calm\(attempt)")
      _ = watcher.reportsChanges(calm[attempt], within: .seconds(1))
    }
    #expect(calm.contains(where: watcher.reportedEvents.contains))
  }
}
