import DisplayNames

/// The content of configuration files (displayfs.conf(5)).
public struct Configuration: Sendable {
  /// An option of the mount, as the text that would follow `-o`.
  public struct Setting: Sendable, Equatable {
    public let name: String
    public let value: String
    public let position: TextPosition
  }

  /// A profile that a configuration file defines.
  public struct DefinedProfile: Sendable {
    public var name: String
    /// The name of another defined profile or of a ``Profile``.
    public var base: String
    public var basePosition: TextPosition
    public var settings: [Setting] = []
    public var rules: [Rule] = []
    public var rolePatterns: [RolePattern] = []
  }

  /// In the order of the files, the most important last.
  public var settings: [Setting] = []
  public var rules: [Rule] = []
  public var profiles: [String: DefinedProfile] = [:]

  public init() {}

  /// Adds the content of a more important file.
  public mutating func add(_ other: Configuration) {
    settings += other.settings
    rules += other.rules
    profiles.merge(other.profiles) { $1 }
  }

  /// A built-in or defined profile with everything that it is derived from.
  public struct ResolvedProfile: Sendable {
    public var base: Profile
    /// The settings of the profiles that it is derived from come first.
    public var settings: [Setting] = []
    public var rules: [Rule] = []
    public var rolePatterns: [RolePattern] = []
  }

  /// - Parameter position: where a file selects the profile; nil if no file does.
  /// - Throws: if there is no such profile, or if profiles are derived from each other in a circle.
  public func profile(_ name: String, requestedAt position: TextPosition? = nil) throws(ConfigurationError)
    -> ResolvedProfile
  {
    var chain: [DefinedProfile] = []
    var next = name
    var position = position
    while Profile(rawValue: next) == nil {
      guard let defined = profiles[next] else {
        let known = Profile.allCases.map(\.rawValue) + profiles.keys.sorted()
        throw ConfigurationError(
          position: position,
          message: "profile=\(next): not a value of this option; use one of: \(known.joined(separator: ", "))"
        )
      }
      if chain.contains(where: { $0.name == next }) {
        throw ConfigurationError(position: position, message: "the profile \(next) is derived from itself")
      }
      chain.append(defined)
      next = defined.base
      position = defined.basePosition
    }
    var result = ResolvedProfile(base: Profile(rawValue: next) ?? .auto)
    for defined in chain.reversed() {
      result.settings += defined.settings
      result.rules += defined.rules
      result.rolePatterns += defined.rolePatterns
    }
    return result
  }

  /// Checks that every selected profile exists.
  ///
  /// - Returns: the problems, in the order of the names.
  public func problemsOfProfiles() -> [ConfigurationError] {
    var problems: [ConfigurationError] = []
    func check(_ name: String, at position: TextPosition) {
      do throws(ConfigurationError) { _ = try profile(name, requestedAt: position) } catch {
        problems.append(error)
      }
    }
    for setting in settings where setting.name == "profile" { check(setting.value, at: setting.position) }
    for (_, defined) in profiles.sorted(by: { $0.key < $1.key }) {
      check(defined.base, at: defined.basePosition)
    }
    return problems
  }
}

/// A position in a configuration file. Line and column begin with 1; columns count characters.
public struct TextPosition: Sendable, Hashable, CustomStringConvertible {
  public let file: String
  public let line: Int
  public let column: Int

  public var description: String { "\(file):\(line):\(column)" }
}

/// A problem in a configuration file, and its position.
public struct ConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  public let position: TextPosition?
  public let message: String

  public var description: String { (position.map { "\($0): " } ?? "") + message }
}
