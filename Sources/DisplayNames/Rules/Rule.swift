/// A rule of the user's configuration for some entries. Properties that it does not set are decided as without it.
public struct Rule: Sendable, Equatable {
  /// The kind that a directory is treated as.
  public enum Kind: String, CaseIterable, Sendable { case package, directory }
  /// The treatment of a name's extension.
  public enum Extension: String, CaseIterable, Sendable { case keep, hide }

  /// The file and line of the rule, for messages.
  public var origin: String
  public var patterns: [PathPattern]
  /// Whether the entry is hidden; false lists it even if another rule would hide it.
  public var isHidden: Bool?
  /// The display names by language; the empty language stands for all other languages.
  public var names: [String: String]?
  public var kind: Kind?
  public var fileExtension: Extension?
  /// Whether the entry and everything below it are read-only in the view.
  public var isReadOnly: Bool?

  public init(origin: String, patterns: [PathPattern]) {
    self.origin = origin
    self.patterns = patterns
  }
}

/// The combined effect of the rules on one entry: each property has the value of the last rule that sets it.
public struct RuleVerdict: Sendable {
  /// A value with the file and line of the rule that set it.
  public struct Setting<Value: Sendable>: Sendable {
    public let value: Value
    public let origin: String
  }

  public internal(set) var isHidden: Setting<Bool>?
  public internal(set) var names: Setting<[String: String]>?
  public internal(set) var kind: Setting<Rule.Kind>?
  public internal(set) var fileExtension: Setting<Rule.Extension>?
  public internal(set) var isReadOnly: Setting<Bool>?

  public init() {}

  /// The name in the best of `languages`; nil when the rules set no name that is valid for `realName`.
  public func displayName(of realName: Name, in languages: [LanguageTag]) -> Name? {
    guard let names = names?.value else { return nil }
    let chosen = LanguageMatch.best(
      preferred: languages, available: names.keys.filter { !$0.isEmpty }.sorted())
    return (chosen.flatMap { names[$0] } ?? names[""]).flatMap {
      LocalizedName.sanitize($0, realName: realName)
    }
  }
}

/// The rules that can apply to entries of one directory, in the order of the configuration.
public struct DirectoryRules: Sendable {
  private var patterns: [(glob: Glob, directoriesOnly: Bool, rule: Int)] = []
  private var rules: [Rule] = []

  public init() {}

  /// - Parameter path: the directory's path, names relative to SOURCE.
  public init(_ rules: [Rule], in path: [Name]) {
    for (index, rule) in rules.enumerated() {
      for pattern in rule.patterns {
        if let glob = pattern.names(in: path) { patterns.append((glob, pattern.directoriesOnly, index)) }
      }
    }
    if !patterns.isEmpty { self.rules = rules }
  }

  public var isEmpty: Bool { patterns.isEmpty }

  /// The combined effect of the rules on an entry.
  public func verdict(on name: Span<UInt8>, isDirectory: Bool) -> RuleVerdict {
    var verdict = RuleVerdict()
    for pattern in patterns where isDirectory || !pattern.directoriesOnly {
      guard pattern.glob.matches(name) else { continue }
      let rule = rules[pattern.rule]
      func setting<Value>(_ value: Value) -> RuleVerdict.Setting<Value> {
        RuleVerdict.Setting(value: value, origin: rule.origin)
      }
      if let value = rule.isHidden { verdict.isHidden = setting(value) }
      if let value = rule.names { verdict.names = setting(value) }
      if let value = rule.kind { verdict.kind = setting(value) }
      if let value = rule.fileExtension { verdict.fileExtension = setting(value) }
      if let value = rule.isReadOnly { verdict.isReadOnly = setting(value) }
    }
    return verdict
  }
}
