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

  /// All of them that have a name, in the order of the manual page. `rules` and `places` have configuration files.
  public static let named: [TextOption<ViewOptions>] = [
    TextOption("language") { (options, value) throws(OptionError) in
      options.languages = try LanguageList.parse(option: value)
    },
    .choice("extensions", \.extensions),
    .choice("hidden", \.hidden),
    .choice("packages", \.packages),
    .choice("profile", \.profile),
    .choice("finder-info", \.finderInfo),
    .choice("appledouble", \.appleDouble),
    .choice("domains", \.domains),
    .toggle("desktop-names", \.readsDesktopNames),
    TextOption("disabled-rules") { (options, value) throws(OptionError) in
      options.disabledRules = try HiddenReason.parse(option: value)
    },
  ]

  /// Sets the option `name` from the text of `-o name=value`. False when this is no option of the view;
  /// throws when it is one and the value is not among those it allows.
  public mutating func set(_ name: String, to value: String) throws(OptionError) -> Bool {
    guard let option = Self.named.first(where: { $0.name == name }) else { return false }
    try option.set(&self, value)
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

  /// Whether it depends on a directory's path what it is, or which rules are about what lies in it.
  package var dependOnPath: Bool { !rules.isEmpty || !places.isEmpty || profile.hasPlaces }

  /// What the directory at `path`, names from SOURCE on, is.
  public func place(ofPath path: [Name]) -> Place {
    places.reduce(profile.place(ofPath: path)) { $1.matches(path) ? $0.union($1.place) : $0 }
  }
}
