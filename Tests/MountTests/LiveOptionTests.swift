import Glibc
import SystemPackage
import Testing

/// Options that are changed on a mounted view.
@Suite(.mounting) struct LiveOptionTests {
  private func view(_ options: String = "") throws -> MountedView {
    let view = try MountedView(options) { root in
      try put("x", at: "\(root)/notes.txt")
      try put("x", at: "\(root)/.secret")
      makeDirectory("\(root)/Music")
      try put("", at: "\(root)/Music/.localized")
      try TestTree.application("\(root)/Tool.app", named: "Tool")
    }
    for name in view.listing() { _ = view.listing("\(name)") }
    return view
  }

  private func set(_ view: MountedView, _ settings: String...) -> Outcome {
    Displayfs.run(["set", view.mountPoint] + settings)
  }

  @Test func set_renamesEntriesAtOnceAndKeepsOpenFiles() throws {
    let view = try view("language=en,profile=macos")
    #expect(view.listing() == ["notes", "Music", "Tool"])
    let open = try OpenFile(view.at("notes"))
    #expect(set(view, "language=fr", "extensions=show").status == 0)
    #expect(view.listing() == ["notes.txt", "Musique", "Tool.app"])
    #expect(open.text() == "x")
    #expect(set(view, "extensions=hide", "language=de", "hidden=show").status == 0)
    #expect(view.listing().isSuperset(of: ["notes", "Musik", "Tool", ".secret"]))
    #expect(set(view, "hidden=reach", "packages=directory").status == 0)
    #expect(view.listing() == ["notes", "Musik", "Tool"])
    #expect(status(view.at("Tool"))?.isDirectory == true)
    #expect(set(view, "packages=file").status == 0)
    #expect(status(view.at("Tool"))?.isRegular == true)
  }

  /// The kernel passes on no name of an attribute of more than 255 bytes, and a setting is part of one.
  @Test func set_withLongValue_isRefusedWithTheLimit() throws {
    let view = try view()
    let longest = "language=" + String(repeating: "zh-Hant:", count: 27) + "de:de-AT:fr"
    #expect(longest.utf8.count == 236 && set(view, longest).status == 0)
    let outcome = set(view, "extensions=show", longest + "-CA")
    #expect(outcome.status == 1 && outcome.errorText.contains("236"), "\(outcome.complaint)")
    #expect(!view.listing().contains("notes.txt"))
  }

  @Test func set_onReadOnlyView_takesEffect() throws {
    let view = try view("ro")
    #expect(set(view, "extensions=show").status == 0)
    #expect(view.listing().contains("notes.txt"))
  }

  /// Whether a volume has Finder info is found out once, by the first entries or by an attribute that is set.
  @Test(.extendedAttributes) func set_keepsWhatFinderInfoHides() throws {
    let view = try MountedView { root in for index in 10..<60 { try put("x", at: "\(root)/\(index).txt") } }
    #expect(view.listing().count == 50)
    let hidden = TestTree.dosAttributes(0x22, version: 5)
    #expect(setAttribute("user.DOSATTRIB", to: hidden, of: view.at("59")) == nil)
    #expect(view.listing().count == 49)
    #expect(set(view, "extensions=show").status == 0)
    #expect(view.listing().count == 49 && view.listing().contains("10.txt"))
  }

  @Test func set_readsDeclaredTypesAgain() throws {
    let view = try MountedView("profile=macos,language=en") { root in makeDirectory("\(root)/My.penpot") }
    #expect(view.listing() == ["My.penpot"])
    try TestTree.declaringApplication(view.real("Applications/Editor.app"))
    #expect(set(view, "language=en").status == 0)
    #expect(view.listing() == ["My", "Applications"])
    #expect(status(view.at("My"))?.isRegular == true)
  }

  @Test func set_ofInvalidSetting_reportsIt() throws {
    let view = try view()
    let cases: [(setting: String, says: String)] = [
      ("extensions=hyde", "hide"), ("tunnel=off", "live view"), ("colour=red", "language"),
    ]
    for (setting, says) in cases {
      let outcome = set(view, setting)
      #expect(outcome.status == 1)
      #expect(outcome.errorText.contains(setting))
      #expect(outcome.errorText.contains(says))
    }
    #expect(Displayfs.run(["set", "/", "extensions=show"]).errorText.contains("no displayfs"))
    let long = Displayfs.run([
      "set", view.mountPoint, "language=" + Array(repeating: "de", count: 80).joined(separator: ":"),
    ])
    #expect(long.errorText.contains("at most 236 bytes"), "\(long.complaint)")
    #expect(view.listing().contains("notes"))
  }

  @Test(.asRoot, .programForAll) func set_byAnotherUser_isRefused() throws {
    let view = try view("allow_other")
    let outcome = Shell.run(
      [
        "setpriv", "--reuid=12345", "--clear-groups", Displayfs.path, "set", view.mountPoint,
        "extensions=show",
      ])
    #expect(outcome.status == 1 && outcome.errorText.contains("may change"), "\(outcome.complaint)")
    #expect(view.listing().contains("notes"))
  }

  @Test func hangupSignal_reloadsConfiguration() throws {
    let view = try MountedView { root in
      try put("x", at: "\(root)/notes.txt")
      try put("extensions = \"hide\"\n", at: "\(root)/../config.toml")
    }
    view.unmount()
    let configuration = "\(view.source)/../config.toml"
    try view.mount("config=\(configuration)")
    #expect(view.listing() == ["notes"])
    try put("extensions = \"show\"\n", at: configuration)
    let process = try #require(view.daemon)
    #expect(kill(process, SIGHUP) == 0)
    #expect(eventually { view.listing() == ["notes.txt"] })
    // What is wrong changes nothing.
    try put("extensions = \"hyde\"\n", at: configuration)
    #expect(kill(process, SIGHUP) == 0)
    try put("extensions = \"hide\"\n", at: configuration)
    #expect(kill(process, SIGHUP) == 0)
    #expect(eventually { view.listing() == ["notes"] })
  }
}
