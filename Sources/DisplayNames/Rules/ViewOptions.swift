/// Whether hidden entries can be reached.
public enum HiddenMode: String, CaseIterable, Sendable {
  /// Not listed, reachable by their real names.
  case reach
  /// Not listed and not reachable.
  case deny
  /// Listed.
  case show
}

/// The type of entry that a package is listed as.
public enum PackageMode: String, CaseIterable, Sendable {
  case file
  case directory
}

/// What aliases of the Finder are shown as.
public enum AliasMode: String, CaseIterable, Sendable {
  /// The files that they are.
  case file
  /// Symbolic links, where the target is in the tree.
  case symlink
}

/// The treatment of AppleDouble files and their metadata.
public enum AppleDoubleMode: String, CaseIterable, Sendable {
  /// The AppleDouble files are hidden.
  case hide
  /// In addition, the files they belong to show the metadata as extended attributes.
  case merge
}

/// Whether Finder info and DOS attributes are read.
public enum FinderInfoMode: String, CaseIterable, Sendable {
  /// Only on volumes that have any.
  case auto
  case on
  case off
}

/// The options that determine the content of the view.
public struct ViewOptions: Sendable, Equatable {
  public var extensions = ExtensionMode.hide
  public var hidden = HiddenMode.reach
  public var packages = PackageMode.file
  public var aliases = AliasMode.file
  public var normalization = NameNormalization.nfc
  public var matching = NameMatching.canonical
  public var profile = Profile.auto
  public var finderInfo = FinderInfoMode.auto
  public var appleDouble = AppleDoubleMode.hide
  public var domains = DomainMode.enforce
  /// Whether names from `.desktop` and `.directory` files are shown for these files and their directories.
  public var readsDesktopNames = false
  /// Most preferred first; empty for the names on disk.
  public var languages: [LanguageTag] = []
  /// The user's own rules. Of several rules that set a property of an entry, the last takes effect.
  public var rules: [Rule] = []
  /// Directories with a role, in addition to those of the profile.
  public var rolePatterns: [RolePattern] = []
  /// The reasons for hiding that are disabled.
  public var disabledRules: Set<HiddenReason> = []

  public init() {}

  /// All options that have a name, in the order of the manual page. `rules` and `rolePatterns` are set by configuration files.
  public static let named: [TextOption<ViewOptions>] = [
    TextOption("language") { (options, value) throws(OptionError) in
      options.languages = try LanguageList.parse(option: value)
    },
    .choice("extensions", \.extensions),
    .choice("hidden", \.hidden),
    .choice("packages", \.packages),
    .choice("aliases", \.aliases),
    .choice("normalization", \.normalization),
    .choice("matching", \.matching),
    .choice("profile", \.profile),
    .choice("finder-info", \.finderInfo),
    .choice("appledouble", \.appleDouble),
    .choice("domains", \.domains),
    .toggle("desktop-names", \.readsDesktopNames),
    TextOption("disabled-rules", values: HiddenReason.ruleNames, isList: true) {
      (options, value) throws(OptionError) in
      options.disabledRules = try HiddenReason.parse(option: value)
    },
  ]

  /// Sets the option `name` from the text of `-o name=value`.
  ///
  /// - Returns: false when the view has no such option.
  /// - Throws: an error when the value is not valid for the option.
  public mutating func set(_ name: String, to value: String) throws(OptionError) -> Bool {
    guard let option = Self.named.first(where: { $0.name == name }) else { return false }
    try option.set(&self, value)
    return true
  }

  /// These options with the detected profile in place of `auto`. With profile `none`, all rules are off and the view is a mirror.
  public func resolved(_ detected: Profile) -> ViewOptions {
    var result = self
    if profile == .auto { result.profile = detected }
    guard !result.profile.appliesRules else { return result }
    result.extensions = .show
    result.hidden = .show
    result.packages = .directory
    result.aliases = .file
    result.normalization = .off
    result.matching = .exact
    result.languages = []
    result.finderInfo = .off
    result.appleDouble = .hide
    result.domains = .ignore
    result.readsDesktopNames = false
    result.rules = []
    result.rolePatterns = []
    return result
  }

  /// Whether the role of a directory, or the rules for its entries, depend on its path.
  package var dependOnPath: Bool {
    !rules.isEmpty || !rolePatterns.isEmpty || profile.hasRoles || aliases == .symlink
  }

  /// The role of the directory at `path`, names relative to SOURCE.
  public func role(ofPath path: [Name]) -> DirectoryRole {
    rolePatterns.reduce(profile.role(ofPath: path)) { $1.matches(path) ? $0.union($1.role) : $0 }
  }
}
