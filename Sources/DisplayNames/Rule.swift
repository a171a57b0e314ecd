/// A rule of the user's own about some entries. What it leaves out is decided as without it.
public struct Rule: Sendable, Equatable {
  /// What a directory is taken for.
  public enum Kind: String, CaseIterable, Sendable { case package, directory }
  /// What becomes of a name's extension.
  public enum Extension: String, CaseIterable, Sendable { case keep, hide }

  /// The file and line that it is from, for people.
  public var origin: String
  public var patterns: [PathPattern]
  /// Whether the entry is not listed; false lists it whatever else would hide it.
  public var isHidden: Bool?
  /// The name it is shown under, by language; the empty language is for all others.
  public var names: [String: String]?
  public var kind: Kind?
  public var fileExtension: Extension?
  /// Whether the entry, and all that lies in it, cannot be changed through the view.
  public var isReadOnly: Bool?

  public init(origin: String, patterns: [PathPattern]) {
    self.origin = origin
    self.patterns = patterns
  }
}

/// What the rules say about one entry: for each question the last rule that answers it.
public struct RuleVerdict: Sendable {
  /// An answer and the file and line of the rule that gave it.
  public struct Answer<Value: Sendable>: Sendable {
    public let value: Value
    public let origin: String
  }

  public internal(set) var isHidden: Answer<Bool>?
  public internal(set) var names: Answer<[String: String]>?
  public internal(set) var kind: Answer<Rule.Kind>?
  public internal(set) var fileExtension: Answer<Rule.Extension>?
  public internal(set) var isReadOnly: Answer<Bool>?

  public init() {}

  /// The name for a reader of `languages`, or nil when the rules give none that can be a name of `realName`.
  public func displayName(of realName: Name, in languages: [LanguageTag]) -> Name? {
    guard let names = names?.value else { return nil }
    let chosen = LanguageMatch.best(
      preferred: languages, available: names.keys.filter { !$0.isEmpty }.sorted())
    return (chosen.flatMap { names[$0] } ?? names[""]).flatMap {
      LocalizedName.sanitize($0, realName: realName)
    }
  }
}

/// The rules that can be about what lies in one directory, in the order in which they were written.
public struct DirectoryRules: Sendable {
  private var patterns: [(glob: Glob, directoriesOnly: Bool, rule: Int)] = []
  private var rules: [Rule] = []

  public init() {}

  /// - Parameter path: the directory's, names from SOURCE on.
  public init(_ rules: [Rule], in path: [Name]) {
    for (index, rule) in rules.enumerated() {
      for pattern in rule.patterns {
        if let glob = pattern.names(in: path) { patterns.append((glob, pattern.directoriesOnly, index)) }
      }
    }
    if !patterns.isEmpty { self.rules = rules }
  }

  public var isEmpty: Bool { patterns.isEmpty }

  /// What the rules say about an entry.
  public func verdict(on name: Span<UInt8>, isDirectory: Bool) -> RuleVerdict {
    var verdict = RuleVerdict()
    for pattern in patterns where isDirectory || !pattern.directoriesOnly {
      guard pattern.glob.matches(name) else { continue }
      let rule = rules[pattern.rule]
      func answer<Value>(_ value: Value) -> RuleVerdict.Answer<Value> {
        RuleVerdict.Answer(value: value, origin: rule.origin)
      }
      if let value = rule.isHidden { verdict.isHidden = answer(value) }
      if let value = rule.names { verdict.names = answer(value) }
      if let value = rule.kind { verdict.kind = answer(value) }
      if let value = rule.fileExtension { verdict.fileExtension = answer(value) }
      if let value = rule.isReadOnly { verdict.isReadOnly = answer(value) }
    }
    return verdict
  }
}
