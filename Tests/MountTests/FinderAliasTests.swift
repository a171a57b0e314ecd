import CLinux
import Glibc
import Testing

/// Aliases of the Finder, which are shown as symbolic links with `aliases=symlink`.
@Suite(.mounting) struct FinderAliasTests {
  /// A view of a Mac's home directories, with an alias on the desktop.
  private func view(
    _ options: String = "profile=plain", aliasOf path: String = "/Users/anna/Documents/Report.txt",
    volume: String = "/",
    _ build: (String) throws -> Void = { _ in }
  ) throws -> MountedView {
    try MountedView("aliases=symlink," + options) { root in
      try put("the report", at: "\(root)/Users/anna/Documents/Report.txt")
      try put(MacAlias.file(path, volume: volume), at: "\(root)/Users/anna/Desktop/link")
      try build(root)
    }
  }

  private let alias = "Users/anna/Desktop/link"

  private func target(_ path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = readlink(path, &buffer, buffer.count)
    return count < 0
      ? nil : String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private func isFile(_ path: String) -> Bool { status(path)?.isRegular == true }

  private func reason(_ view: MountedView, _ path: String, _ options: String = "profile=plain") -> String {
    Displayfs.run([
      "explain", "-o", "config=none,language=en,aliases=symlink,\(options)", "--source", view.source,
      view.real(path),
    ]).text
  }

  @Test func aliasOfFileInTree_isRelativeSymlinkByDisplayNames() throws {
    let view = try view()
    #expect(target(view.at(alias)) == "../Documents/Report")
    #expect(text(view.at(alias)) == "the report")
    let shown = try #require(status(view.at(alias)))
    #expect(shown.st_mode == S_IFLNK | 0o777 && shown.st_size == 19 && shown.st_nlink == 1)
    #expect(view.shell("find . -type l").text == "./\(alias)")
    #expect(reason(view, alias).contains("symlink"))
    #expect(
      reason(view, alias).contains(
        "It is an alias of /Users/anna/Documents/Report.txt, shown as a symbolic link to ../Documents/Report."
      ))
  }

  @Test func alias_withoutOption_isFile() throws {
    let view = try MountedView { root in
      try put("the report", at: "\(root)/Report.txt")
      try put(MacAlias.file("/Report.txt"), at: "\(root)/link")
    }
    #expect(isFile(view.at("link")) && contents(view.at("link")) == MacAlias.file("/Report.txt"))
    #expect(Displayfs.run(["set", view.mountPoint, "aliases=symlink"]).status == 0)
    #expect(target(view.at("link")) == "Report")
    #expect(Displayfs.run(["set", view.mountPoint, "aliases=file"]).status == 0)
    #expect(isFile(view.at("link")) && contents(view.at("link")) == MacAlias.file("/Report.txt"))
  }

  @Test(arguments: [
    "/Users/anna/Documents/Gone.txt", "/Users/otto/Report.txt", "/Users/anna/Desktop/link", "/Report.txt",
    "/Users/anna/Documents/Report.txt/x",
  ]) func aliasWithoutTargetInTree_isFile(path: String) throws {
    let view = try view(aliasOf: path)
    #expect(isFile(view.at(alias)) && contents(view.at(alias)) == MacAlias.file(path))
    #expect(
      reason(view, alias).contains("It is an alias of \(path), which is not in the tree"),
      "\(reason(view, alias))")
  }

  @Test func malformedAlias_isFile() throws {
    let sample = MacAlias.file("/Users/anna/Documents/Report.txt")
    let view = try view { root in
      for length in [12, 16, 56, 60, 100, sample.count - 30] {
        try put(Array(sample.prefix(length)), at: "\(root)/cut\(length)")
      }
      try put(MacAlias.file("/Users/../Users/anna/Documents/Report.txt"), at: "\(root)/up")
    }
    for name in view.listing() where name != "Users" { #expect(isFile(view.at("\(name)")), "\(name)") }
    #expect(view.listing().count == 8)
  }

  // MARK: - Where the target lies

  @Test func sourceWithinVolume_isRecognizedByItsNameOrSharedDirectory() throws {
    // MountedView's source has the name `source`.
    let named = try MountedView("aliases=symlink,profile=plain") { root in
      try put("x", at: "\(root)/a/b.txt")
      try put(MacAlias.file("/Users/source/a/b.txt"), at: "\(root)/c/link")
      try put(MacAlias.file("/Users/other/a/b.txt"), at: "\(root)/c/stranger")
      try put(MacAlias.file("/Users/other/a/b.txt"), at: "\(root)/a/beside")
    }
    #expect(target(named.at("c/link")) == "../a/b")
    #expect(isFile(named.at("c/stranger")))
    #expect(target(named.at("a/beside")) == "b")
  }

  @Test func targetOnOtherVolume_isFoundInVolumesOrWhereSourceIsThatVolume() throws {
    let view = try view(
      "profile=plain,hidden=show", aliasOf: "/Volumes/Disk/Photos/Zoë.jpg", volume: "/Volumes/Disk"
    ) { root in
      try put("photo", at: "\(root)/Volumes/Disk/Photos/Zoë.jpg")
    }
    #expect(target(view.at(alias)) == "../../../Volumes/Disk/Photos/Zoë")
    let volume = try MountedView("aliases=symlink,profile=plain") { root in
      // HFS+ decomposes names, as the alias has them; a copy may be composed.
      try put("photo", at: "\(root)/Photos/Zo\u{eb}.jpg")
      try put(
        MacAlias.file("/Volumes/Disk/Photos/Zoe\u{308}.jpg", volume: "/Volumes/Disk"), at: "\(root)/link")
    }
    #expect(target(volume.at("link")) == "Photos/Zo\u{eb}")
    #expect(text(volume.at("link")) == "photo")
  }

  @Test func targetInLocalizedFolder_isReachedByShownNames() throws {
    let view = try view("profile=macos,language=de") { root in
      for folder in ["Users", "Users/anna/Documents", "Users/anna/Desktop"] {
        try put("", at: "\(root)/\(folder)/.localized")
      }
    }
    #expect(target(view.at(alias)) == "../Dokumente/Report")
    #expect(text(view.at("Benutzer/anna/Schreibtisch/link")) == "the report")
  }

  @Test func targetInsidePackage_isReachedByItsRealName() throws {
    let view = try view(aliasOf: "/Letter.rtfd/TXT.rtf") { root in
      try put("letter", at: "\(root)/Letter.rtfd/TXT.rtf")
      try put(MacAlias.file("/Letter.rtfd"), at: "\(root)/whole")
    }
    #expect(target(view.at(alias)) == "../../../Letter.rtfd/TXT.rtf")
    #expect(text(view.at(alias)) == "letter")
    #expect(target(view.at("whole")) == "Letter")
    // The inside has no path in the view.
    #expect(Displayfs.run(["set", view.mountPoint, "extensions=show"]).status == 0)
    #expect(isFile(view.at(alias)))
    #expect(target(view.at("whole")) == "Letter.rtfd")
  }

  @Test func hiddenTarget_isReachedByRealNameUnlessDenied() throws {
    for (options, shown) in [
      ("profile=plain,finder-info=on", "../../../.secret/key.txt"),
      ("profile=plain,hidden=deny,finder-info=on", nil),
    ] {
      for path in ["/.secret/key.txt", "/listed/key.txt", "/seen/unseen.txt"] {
        let view = try view(options, aliasOf: path) { root in
          for name in [".secret/key.txt", "listed/key.txt", "seen/unseen.txt"] {
            try put("key", at: "\(root)/\(name)")
          }
          try put("listed\n", at: "\(root)/.hidden")
          _ = setAttribute(
            "user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: "\(root)/seen/unseen.txt")
        }
        if shown == nil {
          #expect(isFile(view.at(alias)), "\(path)")
          #expect(contents(view.at(alias)) == MacAlias.file(path))
        } else {
          #expect(target(view.at(alias))?.hasPrefix("../../../") == true, "\(path)")
          #expect(text(view.at(alias)) == "key", "\(path)")
        }
      }
    }
  }

  @Test func targetThatBecomesHidden_isDenied() throws {
    let view = try view("profile=plain,hidden=deny,finder-info=on")
    #expect(target(view.at(alias)) == "../Documents/Report")
    try put("Report.txt\n", at: view.real("Users/anna/Documents/.hidden"))
    #expect(eventually { isFile(view.at(alias)) })
    unlink(view.real("Users/anna/Documents/.hidden"))
    #expect(eventually { target(view.at(alias)) == "../Documents/Report" })
    let report = view.real("Users/anna/Documents/Report.txt")
    #expect(setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x4000), of: report) == nil)
    #expect(eventually { isFile(view.at(alias)) })
  }

  @Test func symlinkOnPath_isNotFollowed() throws {
    let view = try view(aliasOf: "/out/passwd") { root in
      symlink("/etc", "\(root)/out")
      symlink("Users", "\(root)/in")
      try put(MacAlias.file("/in/anna/Documents/Report.txt"), at: "\(root)/second")
    }
    #expect(isFile(view.at(alias)))
    #expect(isFile(view.at("second")))
  }

  // MARK: - Old aliases

  @Test func oldAlias_isReadFromResourceFork() throws {
    let fork = MacAlias.fork("/Documents/Report.txt", volume: "/Volumes/Disk")
    let view = try MountedView("aliases=symlink,profile=plain") { root in
      try put("x", at: "\(root)/Documents/Report.txt")
      for name in ["attribute", "sidecar", "unmarked"] { try put("", at: "\(root)/\(name)") }
      for name in ["attribute", "unmarked"] {
        _ = setAttribute("user.com.apple.ResourceFork", to: fork, of: "\(root)/\(name)")
        let info = TestTree.finderInfo(name == "attribute" ? 0x8000 : 0)
        _ = setAttribute("user.com.apple.FinderInfo", to: info, of: "\(root)/\(name)")
      }
      try put(MergedAttributesTests.appleDouble(fork: fork, flags: 0x8000), at: "\(root)/._sidecar")
    }
    #expect(target(view.at("attribute")) == "Documents/Report")
    #expect(target(view.at("sidecar")) == "Documents/Report")
    #expect(isFile(view.at("unmarked")))
  }

  // MARK: - Changes

  @Test func aliasFollowsItsTarget() throws {
    let view = try view()
    let report = view.real("Users/anna/Documents/Report.txt")
    #expect(view.listing("Users/anna/Desktop") == ["link"])
    let watcher = try InotifyWatcher(view.at("Users/anna/Desktop"))
    #expect(target(view.at(alias)) == "../Documents/Report")
    // Another name in the view, by an entry beside it.
    try put("x", at: view.real("Users/anna/Documents/Report.pdf"))
    #expect(eventually { target(view.at(alias)) == "../Documents/Report.txt" })
    #expect(rename(report, report + ".gone") == 0)
    #expect(eventually { isFile(view.at(alias)) })
    #expect(watcher.reportsChanges("delete link", "create link"), "\(watcher.reportedEvents)")
    #expect(eventually { contents(view.at(alias))?.starts(with: Array("book".utf8)) == true })
    watcher.reset()
    #expect(rename(report + ".gone", report) == 0)
    #expect(eventually { target(view.at(alias)) == "../Documents/Report.txt" })
    #expect(watcher.reportsChanges("delete link", "create link"), "\(watcher.reportedEvents)")
    // A directory on the way.
    #expect(rename(view.real("Users/anna/Documents"), view.real("Users/anna/Papers")) == 0)
    #expect(eventually { isFile(view.at(alias)) })
    #expect(rename(view.real("Users/anna/Papers"), view.real("Users/anna/Documents")) == 0)
    #expect(eventually { target(view.at(alias)) == "../Documents/Report.txt" })
  }

  @Test func targetChangedThroughView_changesAlias() throws {
    let view = try view()
    #expect(target(view.at(alias)) == "../Documents/Report")
    #expect(view.shell("mv Users/anna/Documents/Report Users/anna/Documents/Other").status == 0)
    #expect(eventually { isFile(view.at(alias)) })
    #expect(view.shell("mv Users/anna/Documents/Other Users/anna/Documents/Report").status == 0)
    #expect(eventually { target(view.at(alias)) == "../Documents/Report" })
  }

  @Test func contentThatBecomesAlias_isShownAsSymlink() throws {
    let view = try view { try put("text", at: "\($0)/plain") }
    let sample = MacAlias.file("/Users/anna/Documents/Report.txt")
    #expect(isFile(view.at("plain")))
    try put(sample, at: view.real("plain"))
    #expect(eventually { target(view.at("plain")) == "Users/anna/Documents/Report" })
    try put("text again", at: view.real("plain"))
    #expect(eventually { isFile(view.at("plain")) && text(view.at("plain")) == "text again" })
    // Through the view.
    try put(sample, at: view.at("copied"))
    #expect(eventually { target(view.at("copied")) == "Users/anna/Documents/Report" })
  }

  @Test func alias_isRenamedAndRemovedAsFile() throws {
    let view = try view()
    let sample = MacAlias.file("/Users/anna/Documents/Report.txt")
    #expect(view.shell("mv Users/anna/Desktop/link Users/anna/moved").status == 0)
    #expect(contents(view.real("Users/anna/moved")) == sample)
    #expect(target(view.at("Users/anna/moved")) == "Documents/Report")
    #expect(failure { link(view.at("Users/anna/moved"), view.at("second")) } == .notPermitted)
    #expect(unlink(view.at("Users/anna/moved")) == 0)
    #expect(!isThere(view.real("Users/anna/moved")))
    #expect(text(view.real("Users/anna/Documents/Report.txt")) == "the report")
  }

  @Test func directoryWithAlias_whenMoved_keepsLinkRight() throws {
    let view = try view()
    #expect(target(view.at(alias)) == "../Documents/Report")
    #expect(rename(view.real("Users/anna/Desktop"), view.real("Desk")) == 0)
    #expect(eventually { target(view.at("Desk/link")) == "../Users/anna/Documents/Report" })
    #expect(view.shell("mv Desk Users/anna/Documents/").status == 0)
    #expect(eventually { target(view.at("Users/anna/Documents/Desk/link")) == "../Report" })
  }

  // MARK: - Users

  @Test(.asRoot, .programForAll) func alias_showsOtherUsersNoMoreThanTheyMayRead() throws {
    let view = try view("profile=plain,allow_other") { root in
      chmod("\(root)/Users/anna/Documents/Report.txt", 0o600)
    }
    #expect(view.shell("cat \(alias)").text == "the report")
    let read = OrdinaryUser.shell(OrdinaryUser.other, view, "cat \(alias)")
    #expect(read.status == 1 && read.errorText.contains("Permission denied"), "\(read.errorText)")
    #expect(OrdinaryUser.shell(OrdinaryUser.other, view, "readlink \(alias)").text == "../Documents/Report")
  }

  @Test(.asRoot, .programForAll, .enabled(if: OrdinaryUser.canMount, "Ordinary users cannot mount here."))
  func mountOfOrdinaryUser_showsAliases() throws {
    let view = try view()
    view.unmount()
    #expect(OrdinaryUser.mount(view, "aliases=symlink,profile=plain").status == 0)
    let read = {
      OrdinaryUser.shell(OrdinaryUser.owner, view, "ls -l \(alias) >/dev/null; readlink \(alias)").text
    }
    #expect(read() == "../Documents/Report")
    #expect(OrdinaryUser.shell(OrdinaryUser.owner, view, "cat \(alias)").text == "the report")
    unlink(view.real("Users/anna/Documents/Report.txt"))
    #expect(eventually(within: .work) { read() == "" })
    try put("new", at: view.real("Users/anna/Documents/Report.txt"))
    #expect(eventually(within: .work) { read() == "../Documents/Report" })
  }
}
