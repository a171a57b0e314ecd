import DisplayNames
import Testing

@testable import Configuration

private let settings = KnownSettings(names: ["language", "extensions", "hidden", "profile", "import"]) {
  name, value in
  var options = ViewOptions()
  if name != "import" { _ = try options.set(name, to: value) }
}

private func read(_ text: String) -> (configuration: Configuration, problems: [String]) {
  let outcome = Configuration.read(Array(text.utf8), file: "c.toml", settings: settings)
  return (outcome.configuration, outcome.problems.map(\.description))
}

@Suite struct ConfigurationTests {
  @Test func setting_isConvertedToOptionText() {
    let outcome = read("language = [\"de\", \"en\"]\nextensions = \"all\"\nimport = false\n")
    #expect(outcome.problems == [])
    #expect(
      outcome.configuration.settings.map { "\($0.name)=\($0.value)" } == [
        "language=de:en", "extensions=all", "import=off",
      ])
    #expect(outcome.configuration.settings[1].position.description == "c.toml:2:14")
  }

  @Test func rule_hasOriginPatternsAndVerdicts() throws {
    let outcome = read(
      """
      # mine
      [[rule]]
      match = ["*.tmp", "/Work/"]
      hidden = true

      [[rule]]
      match = "Drafts"
      name = { de = "Entwürfe", fr = "Brouillons" }
      kind = "package"
      extension = "keep"
      read-only = true
      """)
    #expect(outcome.problems == [])
    let rules = outcome.configuration.rules
    #expect(rules.map(\.origin) == ["c.toml:2", "c.toml:6"])
    #expect(rules[0].isHidden == true && rules[0].patterns.map(\.description) == ["*.tmp", "/Work/"])
    #expect(rules[1].names == ["de": "Entwürfe", "fr": "Brouillons"])
    #expect(rules[1].kind == .package && rules[1].fileExtension == .keep && rules[1].isReadOnly == true)
  }

  @Test(arguments: [
    ("extention = \"all\"", ["c.toml:1:1: extention: no such setting; did you mean extensions?"]),
    (
      "\n  extensions = \"hyde\"",
      ["c.toml:2:16: extensions=hyde: not a value of this option; use one of: hide, all, flag, show"]
    ),
    ("extensions = 3.5", ["c.toml:1:14: extensions cannot be a number"]),
    ("rule = 1", ["c.toml:1:1: rules are written below a line [[rule]]"]),
    ("[[rule]]\nhidden = true", ["c.toml:1:1: this rule matches nothing: match = \"...\" is missing"]),
    (
      "[[rule]]\nmatch = \"x\"",
      ["c.toml:1:1: this rule has no effect: it needs one of hidden, name, kind, extension, read-only"]
    ),
    (
      "[[rule]]\nmatch = \"x\"\nhiden = true",
      ["c.toml:3:1: hiden: no such key of a rule; did you mean hidden?"]
    ),
    ("[[rule]]\nmatch = \"x\"\nhidden = \"yes\"", ["c.toml:3:10: hidden is true or false, not a string"]),
    (
      "[[rule]]\nmatch = \"x\"\nkind = \"folder\"",
      ["c.toml:3:8: kind is \"package\" or \"directory\", not \"folder\""]
    ),
    (
      "[[rule]]\nmatch = [\"x\", \"a[b\"]\nhidden = true",
      ["c.toml:2:15: the pattern \"a[b\" cannot be used: a ] is missing; write \\[ for the character itself"]
    ),
    (
      "[[rule]]\nmatch = \"../x\"\nhidden = true",
      ["c.toml:2:9: the pattern \"../x\" names no entry: \"..\" is not a name; paths begin at SOURCE"]
    ),
    (
      "[[rule]]\nmatch = \"x\"\nname = { german = \"y\", d = \"z\" }",
      ["c.toml:3:24: d is not a language; use tags such as de, de-AT or zh-Hant"]
    ),
    (
      "[[rule]]\nmatch = \"x\"\nname = \"a\\u202eb\"",
      [
        "c.toml:3:8: this cannot be a display name: it is empty, too long, or has invisible characters"
      ]
    ),
    (
      "[profiles.macos]\nhidden = \"show\"",
      ["c.toml:1:11: macos is built in; give a profile of your own another name"]
    ),
    ("[profiles.x]\nhomes = [1]", ["c.toml:2:10: homes is made of strings, not a whole number"]),
    (
      "a = 1\nb = \"\nhidden = \"show\"",
      ["c.toml:2:5: this string is not closed: a quotation mark is missing"]
    ),
    ("ü = 1", ["c.toml:1:1: a name is expected here"]),
    ("import = true # äöü\nextensions = [\"ä\", 1]", ["c.toml:2:14: extensions cannot be an array"]),
  ])
  func mistake_isReportedWithLineAndColumn(_ text: String, _ problems: [String]) {
    #expect(read(text).problems == problems)
  }

  @Test func mistakes_areReportedInFileOrder() {
    let problems = read("x = 1\n[[rule]]\nmatch = 1\n[profiles.p]\nq = 1\nhidden = 1\n").problems
    #expect(
      problems.map { $0.prefix { $0 != " " } } == [
        "c.toml:1:1:", "c.toml:3:9:", "c.toml:5:1:", "c.toml:6:10:",
      ])
  }

  @Test func derivedProfile_addsToBaseProfile() throws {
    let outcome = read(
      """
      [profiles.studio]
      based-on = "macos"
      extensions = "all"
      homes = ["/People/*"]
      [[profiles.studio.rule]]
      match = "*.tmp"
      hidden = true

      [profiles.night]
      based-on = "studio"
      hidden = "show"
      """)
    #expect(outcome.problems == [])
    let night = try outcome.configuration.profile("night")
    #expect(night.base == .macos)
    #expect(night.settings.map(\.name) == ["extensions", "hidden"])
    #expect(night.rules.map(\.origin) == ["c.toml:5"])
    #expect(night.rolePatterns.map { $0.matches(["People", "anna"]) } == [true])
    #expect(try outcome.configuration.profile("unix").base == .unix)
  }

  @Test func unknownAndCyclicProfiles_areReported() {
    let configuration = read(
      "profile = \"studio\"\n[profiles.a]\nbased-on = \"b\"\n[profiles.b]\nbased-on = \"a\""
    ).configuration
    let problems = configuration.problemsOfProfiles().map(\.description)
    #expect(problems.count == 3)
    #expect(problems[0].hasPrefix("c.toml:1:11: profile=studio: not a value"))
    #expect(problems[1].contains("is derived from itself"))
  }

  @Test func add_listsMoreImportantFileLast() {
    var configuration = read("hidden = \"show\"\n[[rule]]\nmatch = \"a\"\nhidden = true").configuration
    configuration.add(read("hidden = \"deny\"").configuration)
    #expect(configuration.settings.map(\.value) == ["show", "deny"])
    #expect(configuration.rules.count == 1)
  }
}
