import Glibc
import Testing

/// Rules of the user's own, through a real mount.
@Suite(.mounting) struct ConfigurationFileTests {
  private static let rules = """
    extensions = "show"

    [[rule]]
    match = "*.log"
    hidden = true

    [[rule]]
    match = "/Work/keep.log"
    hidden = false

    [[rule]]
    match = ["Drafts", "plan.xyz"]
    name = { de = "Entwürfe", fr = "Brouillons" }

    [[rule]]
    match = "*.deck"
    kind = "package"

    [[rule]]
    match = "Plain.rtfd"
    kind = "directory"

    [[rule]]
    match = "*.xyz"
    extension = "hide"
    """

  private func tree(_ root: String) throws {
    for name in [
      "a.log", "Work/keep.log", "Work/b.log", "Drafts/x", "Talk.deck/slide", "Plain.rtfd/TXT.rtf", "c.xyz",
    ] {
      try put(name, at: "\(root)/\(name)")
    }
    try put(Self.rules, at: "\(root)/.rules.toml")
  }

  private func view(_ options: String = "language=de") throws -> MountedView {
    let view = try MountedView("config=none") { try tree($0) }
    view.unmount()
    try view.mount("config=\(view.real(".rules.toml")),\(options)")
    return view
  }

  @Test func everyKindOfRule_takesEffect() throws {
    let view = try view()
    #expect(view.listing() == ["Work", "Entwürfe", "Talk.deck", "Plain.rtfd", "c"])
    #expect(view.listing("Work") == ["keep.log"])
    #expect(view.listing("Entwürfe") == ["x"])
    #expect(view.shell("test -f Talk.deck && test -d Plain.rtfd && cat a.log").text == "a.log")
  }

  @Test func ruleNames_followLanguage() throws {
    let view = try view("language=fr")
    #expect(view.listing().contains("Brouillons"))
    view.unmount()
    try view.mount("config=\(view.real(".rules.toml")),language=ja")
    #expect(view.listing().contains("Drafts"))
  }

  @Test func commandLine_overridesEnvironmentAndEnvironmentOverridesFile() throws {
    let view = try view()
    view.unmount()
    let file = view.real(".rules.toml")
    func names(_ options: [String], _ variables: [String: String] = [:]) -> Set<FileName> {
      Displayfs.run(["ls"] + options + ["--source", view.source, view.source], with: variables).names
    }
    #expect(names(["-o", "config=\(file)"]).contains("Drafts"))
    #expect(!names(["-o", "config=\(file)"]).contains("a.log"))
    #expect(names(["-o", "config=\(file)"], ["DISPLAYFS_HIDDEN": "show"]).contains("a.log"))
    #expect(!names(["-o", "config=\(file),hidden=reach"], ["DISPLAYFS_HIDDEN": "show"]).contains("a.log"))
    #expect(!names([], ["DISPLAYFS_CONFIG": file]).contains("a.log"))
    #expect(names(["-o", "config=none"], ["DISPLAYFS_CONFIG": file]).contains("a.log"))
    let wrong = Displayfs.run(["ls", view.source], with: ["DISPLAYFS_HIDDEN": "maybe"])
    #expect(wrong.status == 1 && wrong.errorText.contains("DISPLAYFS_HIDDEN: hidden=maybe"))
  }

  @Test func explain_namesFileAndLineOfRule() throws {
    let view = try view()
    let file = view.real(".rules.toml")
    func reason(_ path: String) -> String { Displayfs.run(["explain", view.at(path)]).text }
    #expect(reason("a.log").contains("It is hidden by the rule in \(file):3."))
    #expect(reason("Work/keep.log").contains("It is listed by the rule in \(file):7."))
    #expect(reason("Entwürfe").contains("It has this name by the rule in \(file):11."))
    #expect(reason("Talk.deck").contains("It is taken for a package by the rule in \(file):15."))
    #expect(reason("c").contains("The extension is hidden by the rule in \(file):23."))
    // Without a mount it is the same.
    let apart = Displayfs.run([
      "explain", "-o", "config=\(file)", "--source", view.source, view.real("a.log"),
    ])
    #expect(apart.text.contains("\(file):3."))
  }

  @Test func customProfile_derivedFromBuiltInProfile_takesEffect() throws {
    let view = try MountedView("config=none") { root in
      try put("x", at: "\(root)/People/anna/Library/x")
      try put("x", at: "\(root)/bin/x")
      try put(
        """
        profile = "studio"
        [profiles.studio]
        based-on = "plain"
        homes = "/People/*"
        volume-roots = "/"
        disabled-rules = ["dot-files"]
        """, at: "\(root)/.rules.toml")
    }
    #expect(view.listing() == ["People", "bin"])
    view.unmount()
    try view.mount("config=\(view.real(".rules.toml"))")
    #expect(view.listing() == ["People", ".rules.toml"])
    #expect(view.listing("People/anna") == [])
  }

  @Test func invalidConfiguration_isReportedAndNothingIsMounted() throws {
    let view = try view()
    view.unmount()
    try put("hidden = \"reach\"\n[[rule]]\nmatch = \"x\"\nhide = true\n", at: view.real(".rules.toml"))
    let file = view.real(".rules.toml")
    let outcome = Displayfs.run(["mount", "-o", "config=\(file)", view.source, view.mountPoint])
    #expect(outcome.status == 1)
    #expect(outcome.errorText.contains("\(file):4:1: hide: no such key of a rule"))
    #expect(!Displayfs.isMounted(view.mountPoint))
    let absent = Displayfs.run(["mount", "-o", "config=\(file).absent", view.source, view.mountPoint])
    #expect(absent.status == 1 && absent.errorText.contains("\(file).absent"))
    let check = Displayfs.run(["check-config", file])
    #expect(check.status == 1 && check.text.hasPrefix("\(file):4:1: hide: no such key of a rule"))
    let both = Displayfs.run(["check-config", "\(file).absent", file])
    #expect(both.status == 1 && both.text.contains("\(file).absent: cannot read"), "\(both.text)")
    #expect(both.text.contains("\(file):4:1: hide: no such key of a rule"), "\(both.text)")
    #expect(Displayfs.run(["mount", "-o", "config=none", view.source, view.mountPoint]).status == 0)
  }

  @Test func checkConfig_ofValidFile_reportsNoMistakes() throws {
    let view = try view()
    let outcome = Displayfs.run(["check-config", view.real(".rules.toml")])
    #expect(outcome.status == 0 && outcome.text == "\(view.real(".rules.toml")): no mistakes")
  }

  @Test func userConfiguration_isReadForUserButNotForRoot() throws {
    let view = try MountedView("config=none") { root in
      try put("x", at: "\(root)/a.log")
      try put("[[rule]]\nmatch = \"*.log\"\nhidden = true\n", at: "\(root)/home/displayfs/config.toml")
    }
    let outcome = Displayfs.run(
      ["ls", "--source", view.source, view.source],
      with: ["XDG_CONFIG_HOME": view.real("home"), "DISPLAYFS_CONFIG": ""])
    #expect(outcome.status == 0)
    #expect(outcome.names.contains("a.log") == (geteuid() == 0))
  }

  @Test func hidingRule_withHiddenDeny_refusesAccess() throws {
    let view = try view("language=de,hidden=deny")
    #expect(view.shell("cat a.log").status != 0)
    #expect(view.shell("echo x > new.log").status != 0)
    #expect(view.shell("cat Work/keep.log").text == "Work/keep.log")
  }

  @Test func ruleName_survivesSave() throws {
    let view = try view()
    // "Entwürfe" and plan.xyz do not stand in each other's way: the latter is alone in its directory.
    try put("old", at: view.real("Work/plan.xyz"))
    #expect(view.listing("Work") == ["keep.log", "Entwürfe"])
    let save = view.shell("cd Work && printf new > .tmp && mv .tmp Entwürfe && cat plan.xyz")
    #expect(save.text == "new", "\(save.errorText)")
    #expect(view.realListing("Work").contains("plan.xyz"))
  }
}
