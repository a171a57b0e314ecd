import DisplayNames

/// The options of the mount, as far as the configuration must know them.
public struct KnownSettings: Sendable {
  public let names: [String]
  /// Throws if the value is not valid for the option. The description of the error is a sentence.
  public let check: @Sendable (_ name: String, _ value: String) throws -> Void

  public init(names: [String], check: @escaping @Sendable (_ name: String, _ value: String) throws -> Void) {
    self.names = names
    self.check = check
  }
}

extension Configuration {
  /// The maximum size. Larger files are refused: no real configuration is that large.
  public static let largestFile = 1 << 20

  /// Reads one file.
  ///
  /// - Parameter file: its name, for messages and for the origin of rules.
  /// - Returns: the configuration, and all problems in the order of their positions. After a syntax error, nothing is read.
  public static func read(
    _ bytes: [UInt8], file: String, settings: KnownSettings
  ) -> (configuration: Configuration, problems: [ConfigurationError]) {
    let positions = TextPositions(bytes, file: file)
    guard bytes.count <= largestFile else {
      let message = "the file is larger than \(largestFile) bytes"
      return (Configuration(), [ConfigurationError(position: positions[0], message: message)])
    }
    var reader = ConfigurationReader(positions: positions, known: settings)
    var configuration = Configuration()
    do throws(TOMLError) { configuration = reader.configuration(try TOMLReader.read(bytes)) } catch {
      reader.problems.append(error)
    }
    let problems = reader.problems.sorted { $0.offset < $1.offset }.map {
      ConfigurationError(position: positions[$0.offset], message: $0.message)
    }
    return (configuration, problems)
  }
}

/// The positions at which the lines of a file begin.
private struct TextPositions {
  private let file: String
  private let bytes: [UInt8]
  private let lineStarts: [Int]

  init(_ bytes: [UInt8], file: String) {
    self.file = file
    self.bytes = bytes
    lineStarts = [0] + bytes.indices.filter { bytes[$0] == 0x0a }.map { $0 + 1 }
  }

  subscript(offset: Int) -> TextPosition {
    var (low, high) = (0, lineStarts.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if lineStarts[middle] <= offset { low = middle } else { high = middle }
    }
    let before = bytes[lineStarts[low]..<min(bytes.count, max(offset, lineStarts[low]))]
    // The continuation bytes of a character begin with the bits 10.
    let column = before.reduce(1) { $1 & 0xc0 == 0x80 ? $0 : $0 + 1 }
    return TextPosition(file: file, line: low + 1, column: column)
  }
}

/// Converts tables to rules, profiles and settings, and collects the problems.
private struct ConfigurationReader {
  let positions: TextPositions
  let known: KnownSettings
  var problems: [TOMLError] = []

  init(positions: TextPositions, known: KnownSettings) {
    self.positions = positions
    self.known = known
  }

  private mutating func complain(_ offset: Int, _ message: String) {
    problems.append(TOMLError(offset: offset, message: message))
  }

  mutating func configuration(_ root: TOMLTable) -> Configuration {
    var result = Configuration()
    for entry in root.entries {
      switch entry.key {
      case "rule": result.rules = rules(entry)
      case "profiles":
        guard case .table(let table) = entry.value.content else {
          complain(entry.value.offset, "profiles is a table of tables, as in [profiles.studio]")
          continue
        }
        for entry in table.entries {
          if let defined = profile(entry) { result.profiles[defined.name] = defined }
        }
      default:
        if let setting = setting(entry, orOneOf: ["rule", "profiles"]) { result.settings.append(setting) }
      }
    }
    return result
  }

  // MARK: Settings

  private mutating func setting(_ entry: TOMLTable.Entry, orOneOf others: [String]) -> Configuration.Setting?
  {
    guard known.names.contains(entry.key) else {
      complain(entry.offset, Spelling.unknown(entry.key, "setting", among: known.names + others))
      return nil
    }
    guard let value = text(of: entry) else { return nil }
    let setting = Configuration.Setting(
      name: entry.key, value: value, position: positions[entry.value.offset])
    // The profiles are known only when all files have been read.
    if entry.key == "profile" { return setting }
    do { try known.check(entry.key, value) } catch {
      complain(entry.value.offset, "\(error)")
      return nil
    }
    return setting
  }

  /// A value as it would follow `-o name=`.
  private mutating func text(of entry: TOMLTable.Entry) -> String? {
    switch entry.value.content {
    case .string(let text): return text
    case .integer(let number): return String(number)
    case .boolean(let isOn): return isOn ? "on" : "off"
    case .array(let values):
      let texts = values.compactMap { value in
        if case .string(let text) = value.content { text } else { nil }
      }
      if texts.count == values.count { return texts.joined(separator: ":") }
    default: break
    }
    complain(entry.value.offset, "\(entry.key) cannot be \(entry.value.kind)")
    return nil
  }

  // MARK: Profiles

  private mutating func profile(_ entry: TOMLTable.Entry) -> Configuration.DefinedProfile? {
    guard case .table(let table) = entry.value.content else {
      complain(entry.value.offset, "a profile is a table: [profiles.\(entry.key)]")
      return nil
    }
    guard Profile(rawValue: entry.key) == nil else {
      complain(entry.offset, "\(entry.key) is built in; give a profile of your own another name")
      return nil
    }
    var result = Configuration.DefinedProfile(
      name: entry.key, base: Profile.auto.rawValue, basePosition: positions[entry.offset])
    let keys = ["based-on", "homes", "volume-roots", "containers", "rule"]
    for entry in table.entries {
      switch entry.key {
      case "based-on":
        guard let base = string(entry) else { continue }
        result.base = base
        result.basePosition = positions[entry.value.offset]
      case "homes": result.rolePatterns += rolePatterns(entry, .home)
      case "volume-roots": result.rolePatterns += rolePatterns(entry, .macVolumeRoot)
      case "containers": result.rolePatterns += rolePatterns(entry, .container)
      case "rule": result.rules = rules(entry)
      case "profile": complain(entry.offset, "a profile is derived from another with based-on")
      default: if let setting = setting(entry, orOneOf: keys) { result.settings.append(setting) }
      }
    }
    return result
  }

  private mutating func rolePatterns(_ entry: TOMLTable.Entry, _ role: DirectoryRole) -> [RolePattern] {
    var result: [RolePattern] = []
    for (text, offset) in strings(entry) {
      do throws(OptionError) { result.append(try RolePattern(text, is: role)) } catch {
        complain(offset, error.description)
      }
    }
    return result
  }

  // MARK: Rules

  private mutating func rules(_ entry: TOMLTable.Entry) -> [Rule] {
    var tables: [TOMLTable] = []
    switch entry.value.content {
    case .tables(let written): tables = written
    case .array(let values):
      for value in values {
        if case .table(let table) = value.content {
          tables.append(table)
        } else {
          complain(value.offset, "a rule is a table, not \(value.kind)")
        }
      }
    default: complain(entry.offset, "rules are written below a line [[rule]]")
    }
    return tables.compactMap { rule($0) }
  }

  private mutating func rule(_ table: TOMLTable) -> Rule? {
    let before = problems.count
    let position = positions[table.offset]
    var rule = Rule(origin: "\(position.file):\(position.line)", patterns: [])
    let keys = ["match", "hidden", "name", "kind", "extension", "read-only"]
    for entry in table.entries {
      switch entry.key {
      case "match": rule.patterns = patterns(entry)
      case "hidden": rule.isHidden = boolean(entry)
      case "name": rule.names = names(entry)
      case "kind": rule.kind = choice(entry)
      case "extension": rule.fileExtension = choice(entry)
      case "read-only": rule.isReadOnly = boolean(entry)
      default: complain(entry.offset, Spelling.unknown(entry.key, "key of a rule", among: keys))
      }
    }
    guard problems.count == before else { return nil }
    if rule.patterns.isEmpty {
      complain(table.offset, "this rule matches nothing: match = \"...\" is missing")
    } else if rule == Rule(origin: rule.origin, patterns: rule.patterns) {
      complain(
        table.offset, "this rule has no effect: it needs one of \(keys.dropFirst().joined(separator: ", "))")
    }
    return rule
  }

  private mutating func patterns(_ entry: TOMLTable.Entry) -> [PathPattern] {
    var result: [PathPattern] = []
    for (text, offset) in strings(entry) {
      do throws(OptionError) { result.append(try PathPattern(text)) } catch {
        complain(offset, error.description)
      }
    }
    return result
  }

  /// One name for all languages, or a table of names by language.
  private mutating func names(_ entry: TOMLTable.Entry) -> [String: String]? {
    switch entry.value.content {
    case .string(let text): return checked(text, entry.value.offset).map { ["": $0] }
    case .table(let table):
      var result: [String: String] = [:]
      for entry in table.entries {
        if LanguageTag(entry.key) == nil {
          complain(entry.offset, "\(entry.key) is not a language; use tags such as de, de-AT or zh-Hant")
        }
        if let text = string(entry) { result[entry.key] = checked(text, entry.value.offset) }
      }
      if table.entries.isEmpty {
        complain(entry.value.offset, "name has no language: name = { de = \"...\" }")
      }
      return result
    default:
      complain(entry.value.offset, "name is a string or, by language, a table, not \(entry.value.kind)")
      return nil
    }
  }

  private mutating func checked(_ name: String, _ offset: Int) -> String? {
    // With a real name that begins with a period, because the name may begin with one too.
    if LocalizedName.sanitize(name, realName: ".x") != nil { return name }
    complain(
      offset, "this cannot be a display name: it is empty, too long, or has invisible characters")
    return nil
  }

  // MARK: Values

  private mutating func string(_ entry: TOMLTable.Entry) -> String? {
    if case .string(let text) = entry.value.content { return text }
    complain(entry.value.offset, "\(entry.key) is a string, not \(entry.value.kind)")
    return nil
  }

  private mutating func boolean(_ entry: TOMLTable.Entry) -> Bool? {
    if case .boolean(let value) = entry.value.content { return value }
    complain(entry.value.offset, "\(entry.key) is true or false, not \(entry.value.kind)")
    return nil
  }

  private mutating func choice<Value>(_ entry: TOMLTable.Entry) -> Value?
  where Value: RawRepresentable<String> & CaseIterable {
    guard let text = string(entry) else { return nil }
    if let value = Value(rawValue: text) { return value }
    let allowed = Value.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
    complain(entry.value.offset, "\(entry.key) is \(allowed), not \"\(text)\"")
    return nil
  }

  /// One string or an array of strings, each with its offset.
  private mutating func strings(_ entry: TOMLTable.Entry) -> [(String, Int)] {
    switch entry.value.content {
    case .string(let text): return [(text, entry.value.offset)]
    case .array(let values):
      var result: [(String, Int)] = []
      for value in values {
        if case .string(let text) = value.content {
          result.append((text, value.offset))
        } else {
          complain(value.offset, "\(entry.key) is made of strings, not \(value.kind)")
        }
      }
      return result
    default:
      complain(entry.value.offset, "\(entry.key) is a string or an array of strings, not \(entry.value.kind)")
      return []
    }
  }
}
