/// Whether hidden entries can be reached.
public enum HiddenMode: String, CaseIterable, Sendable {
  /// Not listed, reachable by their real names.
  case reach
  /// Not listed and not reachable.
  case deny
  /// Listed.
  case show
}

/// What a package is listed as.
public enum PackageMode: String, CaseIterable, Sendable {
  case file
  case directory
}

/// What becomes of what AppleDouble files carry.
public enum AppleDoubleMode: String, CaseIterable, Sendable {
  /// They are hidden.
  case hide
  /// Their files also show it as extended attributes.
  case merge
}

/// Whether Finder info and DOS attributes are read.
public enum FinderInfoMode: String, CaseIterable, Sendable {
  /// Where the volume has any.
  case auto
  case on
  case off
}

/// An option value that cannot be used. Its description says what can.
public struct OptionError: Error, Sendable, Equatable, CustomStringConvertible {
  public let description: String
}

/// The options that decide what the view looks like.
public struct ViewOptions: Sendable, Equatable {
  public var extensions = ExtensionMode.hide
  public var hidden = HiddenMode.reach
  public var packages = PackageMode.file
  public var profile = Profile.auto
  public var finderInfo = FinderInfoMode.auto
  public var appleDouble = AppleDoubleMode.hide
  public var domains = DomainMode.enforce
  /// Whether `.desktop` and `.directory` files name themselves and their directories.
  public var readsDesktopNames = false
  /// Most preferred first; empty means names as they are on disk.
  public var languages: [LanguageTag] = []
  /// The user's own, of which the last that answers a question decides.
  public var rules: [Rule] = []
  /// Directories with a meaning beyond those that the profile gives one.
  public var places: [PlacePattern] = []
  /// What hides nothing here.
  public var disabledRules: Set<HiddenReason> = []

  public init() {}

  /// Sets the option `name` from the text of `-o name=value`. False when this is no option of the view;
  /// throws when it is one and the value is not among those it allows.
  public mutating func set(_ name: String, to value: String) throws(OptionError) -> Bool {
    switch name {
    case "extensions": extensions = try Self.choice(name, value)
    case "hidden": hidden = try Self.choice(name, value)
    case "packages": packages = try Self.choice(name, value)
    case "profile": profile = try Self.choice(name, value)
    case "finder-info": finderInfo = try Self.choice(name, value)
    case "appledouble": appleDouble = try Self.choice(name, value)
    case "domains": domains = try Self.choice(name, value)
    case "desktop-names": readsDesktopNames = try Self.isOn(name, value)
    case "language": languages = try LanguageList.parse(option: value)
    case "disabled-rules": disabledRules = try HiddenReason.parse(option: value)
    default: return false
    }
    return true
  }

  /// These options for a tree whose profile is found out. Profile `none` makes a mirror of it.
  public func resolved(_ detected: Profile) -> ViewOptions {
    var result = self
    if profile == .auto { result.profile = detected }
    guard !result.profile.appliesRules else { return result }
    result.extensions = .show
    result.hidden = .show
    result.packages = .directory
    result.languages = []
    result.finderInfo = .off
    result.appleDouble = .hide
    result.domains = .ignore
    result.readsDesktopNames = false
    result.rules = []
    result.places = []
    return result
  }

  /// What the directory at `path`, names from SOURCE on, is.
  public func place(ofPath path: [Name]) -> Place {
    places.reduce(profile.place(ofPath: path)) { $1.matches(path) ? $0.union($1.place) : $0 }
  }

  /// The value of a switch.
  public static func isOn(_ name: String, _ value: String) throws(OptionError) -> Bool {
    guard ["on", "off"].contains(value) else {
      throw OptionError(description: "\(name)=\(value): not a value of this option; use one of: on, off")
    }
    return value == "on"
  }

  private static func choice<Value>(_ name: String, _ value: String) throws(OptionError) -> Value
  where Value: RawRepresentable<String> & CaseIterable {
    if let value = Value(rawValue: value) { return value }
    let allowed = Value.allCases.map(\.rawValue).joined(separator: ", ")
    throw OptionError(description: "\(name)=\(value): not a value of this option; use one of: \(allowed)")
  }
}
