import Testing

@testable import DisplayNames

private func path(_ text: String) -> [Name] { text.split(separator: "/").map { Name(String($0)) } }

/// Whether a rule with this pattern is about the entry at a path.
private func matches(_ pattern: String, _ entry: String, isDirectory: Bool = false) throws -> Bool {
  var rule = Rule(origin: "", patterns: [try PathPattern(pattern)])
  rule.isHidden = true
  let names = path(entry)
  let rules = DirectoryRules([rule], in: Array(names.dropLast()))
  let name = names[names.count - 1]
  return rules.verdict(on: name.bytes.span, isDirectory: isDirectory).isHidden != nil
}

@Suite struct RuleTests {
  @Test(arguments: [
    ("*.bak", "a/b/x.bak", true), ("*.bak", "x.bakk", false), ("*", "x", true), ("a*b*c", "aXbYbZc", true),
    ("a*b*c", "aXbYbZ", false), ("?", "ü", true), ("?", "ab", false), ("[a-c]x", "bx", true),
    ("[!a-c]x", "bx", false),
    ("[^a-c]x", "dx", true), ("[]]", "]", true), ("[a-]", "-", true), ("\\*", "*", true), ("\\*", "x", false),
    ("/x", "x", true), ("/x", "a/x", false), ("a/x", "a/x", true), ("a/x", "b/a/x", false),
    ("**/x", "x", true), ("**/x", "a/b/x", true), ("a/**/x", "a/x", true), ("a/**/x", "a/b/c/x", true),
    ("a/**/x", "b/x", false), ("a/**", "a/b/c", true), ("a/**", "a", false), ("a/*", "a/b/c", false),
    ("**/b/**/x", "a/b/c/b/x", true), ("Bücher", "Bu\u{308}cher", true), ("Bu\u{308}cher", "Bücher", true),
  ])
  func pattern_matchesLikeGitignore(_ pattern: String, _ entry: String, _ expected: Bool) throws {
    #expect(try matches(pattern, entry) == expected)
  }

  @Test func pattern_withTrailingSlash_matchesDirectoriesOnly() throws {
    #expect(try matches("build/", "a/build", isDirectory: true))
    #expect(try !matches("build/", "a/build", isDirectory: false))
  }

  /// A name may begin with a combining mark, or end with U+0600: with the slash it is one character then.
  @Test(arguments: [
    ("/\u{301}x", "\u{301}x", true), ("/\u{301}x", "a/\u{301}x", false), ("a/\u{301}x", "a/\u{301}x", true),
    ("a/\u{301}x", "b/a/\u{301}x", false), ("a\u{600}/x", "a\u{600}/x", true),
    ("/*/\u{301}?", "a/\u{301}x", true),
  ]) func slashBesideCombiningScalar_separatesNames(_ pattern: String, _ entry: String, _ expected: Bool)
    throws
  {
    let names = entry.parts(at: "/").map { Name($0) }
    #expect(try PathPattern(pattern).matches(names) == expected)
  }

  @Test func trailingSlashAfterPrependedScalar_isRecognized() throws {
    #expect(try PathPattern("build\u{600}/").directoriesOnly)
  }

  @Test func wildcards_matchNonUTF8Name() throws {
    let name: [UInt8] = [0x61, 0xff, 0x2e, 0xc3]
    let isMatched = try Glob("a?.*").matches(name.span)
    #expect(isMatched)
  }

  @Test(arguments: ["", "/", "a//b", "./a", "a/..", "a[", "a\\", "[z-a]"])
  func pattern_thatMatchesNothing_isRefused(_ pattern: String) {
    #expect(throws: OptionError.self) { try PathPattern(pattern) }
  }

  @Test func globWithManyStars_avoidsExponentialBacktracking() throws {
    let glob = try Glob(String(repeating: "*a", count: 100) + "b")
    let name = [UInt8](repeating: 0x61, count: 255)
    let isMatched = glob.matches(name.span)
    #expect(!isMatched)
  }

  @Test func lastMatchingRule_decidesEachProperty() throws {
    var first = Rule(origin: "f:1", patterns: [try PathPattern("*.log")])
    first.isHidden = true
    first.kind = .package
    var second = Rule(origin: "f:2", patterns: [try PathPattern("keep.log")])
    second.isHidden = false
    let rules = DirectoryRules([first, second], in: [])
    let name = Name("keep.log")
    let verdict = rules.verdict(on: name.bytes.span, isDirectory: false)
    #expect(verdict.isHidden?.value == false && verdict.isHidden?.origin == "f:2")
    #expect(verdict.kind?.value == .package && verdict.kind?.origin == "f:1")
    #expect(verdict.isReadOnly == nil)
  }

  @Test func ruleName_isChosenByLanguage() throws {
    var rule = Rule(origin: "", patterns: [try PathPattern("Drafts")])
    rule.names = ["de": "Entwürfe", "en": "Sketches", "": "?"]
    func name(_ language: String) throws -> Name? {
      let real: Name = "Drafts"
      return DirectoryRules([rule], in: []).verdict(on: real.bytes.span, isDirectory: true)
        .displayName(of: "Drafts", in: try LanguageList.parse(option: language))
    }
    #expect(try name("de-AT") == "Entwürfe")
    #expect(try name("en") == "Sketches")
    rule.names = ["de": "Entwürfe", "": "Alles"]
    #expect(try name("ja") == "Alles")
    rule.names = ["de": "Entwürfe"]
    #expect(try name("ja") == nil)
  }

  @Test func customPlaces_locateHomesAndVolumeRoots() throws {
    var options = ViewOptions()
    options.profile = .plain
    options.rolePatterns = [
      try RolePattern("/People/*", is: .home), try RolePattern("/", is: .macVolumeRoot),
    ]
    #expect(options.role(ofPath: ["People", "anna"]) == .home)
    #expect(options.role(ofPath: []) == .macVolumeRoot)
    #expect(options.role(ofPath: ["People"]) == [])
  }

  @Test func disabledRulesOption_isParsed() throws {
    var options = ViewOptions()
    #expect(try options.set("disabled-rules", to: "home-library:dot-files"))
    #expect(options.disabledRules == [.homeLibrary, .dotFile])
    #expect(throws: OptionError.self) { try options.set("disabled-rules", to: "everything") }
  }

  @Test func disabledRulesOption_isCompletedValueByValue() throws {
    let option = try #require(ViewOptions.named.first { $0.name == "disabled-rules" })
    #expect(option.completions(of: "dis").count == HiddenReason.allCases.compactMap(\.ruleName).count)
    #expect(
      option.completions(of: "disabled-rules=vol") == [
        "disabled-rules=volume-root-names", "disabled-rules=volumes",
      ])
    #expect(
      option.completions(of: "disabled-rules=volumes:vol") == ["disabled-rules=volumes:volume-root-names"])
    #expect(option.completions(of: "domains") == [])
  }
}
