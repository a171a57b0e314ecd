import Configuration
import DisplayNames
import Glibc
import View

extension MountOptions {
  /// The options that configuration files and the environment may set.
  static let settings = KnownSettings(names: own.map(\.name).filter { $0 != "config" }) { name, value in
    var scratch = MountOptions()
    try scratch.apply(name, value)
  }

  /// Records an option of displayfs itself, after checking its value.
  mutating func accept(_ name: String, _ value: String) throws(Failure) {
    switch name {
    // Not checked here: a file may define the profile.
    case "profile": given.append((name, value))
    // A daemon has another working directory.
    case "config": given.append((name, ConfigurationFiles.absolute(value)))
    default:
      var scratch = self
      try scratch.apply(name, value)
      given.append((name, value))
    }
  }

  /// Sets one option of displayfs itself.
  private mutating func apply(_ name: String, _ value: String) throws(Failure) {
    do throws(OptionError) { try Self.own.first { $0.name == name }?.set(&self, value) } catch {
      throw Failure(.usage, "\(error)")
    }
  }

  /// Parses the options of each `-o`, and completes them.
  ///
  /// - Parameter sloppy: whether unknown options are ignored.
  static func completed(_ lists: [String], sloppy: Bool = false) throws(Failure) -> MountOptions {
    var options = MountOptions()
    for list in lists { try options.add(list, sloppy: sloppy) }
    return try options.completed()
  }

  /// Returns these options, completed from configuration files and the environment. Everything is read anew.
  ///
  /// If an option has several values, the command line has priority, then the environment, the chosen profile, the file that
  /// `config` names, the user's file and the system's file.
  func completed() throws(Failure) -> MountOptions {
    let environment = Self.environment
    func chosen(_ name: String) -> String? {
      given.last { $0.name == name }?.value ?? environment.last { $0.name == name }?.value
    }
    let configuration = try ConfigurationFiles.read(also: chosen("config"))
    let inFiles = configuration.settings.last { $0.name == "profile" }
    let profile: Configuration.ResolvedProfile
    do throws(ConfigurationError) {
      profile = try configuration.profile(
        chosen("profile") ?? inFiles?.value ?? Profile.auto.rawValue,
        requestedAt: chosen("profile") == nil ? inFiles?.position : nil)
    } catch { throw Failure(.usage, "\(error)") }

    var result = self
    var hasLanguage = false
    let files = (configuration.settings + profile.settings).map { ($0.name, $0.value, "\($0.position): ") }
    let variables = environment.map { ($0.name, $0.value, "\(Self.variable($0.name)): ") }
    for (name, value, from) in files + variables + given.map({ ($0.name, $0.value, "") }) {
      if name == "profile" || name == "config" { continue }
      do throws(Failure) { try result.apply(name, value) } catch {
        throw Failure(error.code, from + error.description)
      }
      if name == "language" { hasLanguage = true }
    }
    if !hasLanguage { result.view.languages = LanguageList.fromEnvironment }
    result.view.profile = profile.base
    result.view.rules = configuration.rules + profile.rules
    result.view.rolePatterns = profile.rolePatterns
    return result
  }

  /// The options that the environment sets. An empty variable sets none.
  private static var environment: [(name: String, value: String)] {
    own.map(\.name).compactMap { name in
      getenv(variable(name)).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : (name, $0) }
    }
  }

  /// The environment variable that sets an option: `DISPLAYFS_TUNNEL_TIMEOUT`.
  private static func variable(_ name: String) -> String {
    "DISPLAYFS_" + String(name.uppercased().map { $0 == "-" ? "_" : $0 })
  }
}
