/// A uniform type declared by a bundle ("Information Property List Key Reference", `UTExportedTypeDeclarations`).
public struct TypeDeclaration: Hashable, Sendable {
  public var identifier: String
  /// The types it conforms to directly.
  public var conformsTo: [String]
  /// File name extensions as written, without a leading period.
  public var extensions: [String]
  /// Whether the type's owner declares it, rather than a bundle that only reads such files.
  public var exported: Bool

  public init(identifier: String, conformsTo: [String], extensions: [String], exported: Bool) {
    self.identifier = identifier
    self.conformsTo = conformsTo
    self.extensions = extensions
    self.exported = exported
  }
}

/// The properties of a bundle's Info.plist that the view uses ("Information Property List Key Reference").
public struct BundleInfo: Hashable, Sendable {
  /// Unlocalized `CFBundleDisplayName`, the macOS variant first; nil when absent or blank.
  public var displayName: String?
  /// Unlocalized `CFBundleName`, the macOS variant first; nil when absent or blank.
  public var name: String?
  public var identifier: String?
  public var developmentRegion: String?
  /// `CFBundleLocalizations`.
  public var localizations: [String]
  /// `LSHasLocalizedDisplayName`; nil when absent.
  public var hasLocalizedDisplayName: Bool?
  public var types: [TypeDeclaration]
  /// Names of files with the bundle's icon, most with no extension: that of macOS, then those of iOS.
  public var iconNames: [String]
  /// Extensions of document types with `LSTypeIsPackage`, as written, without the wildcard `*`.
  public var packageExtensions: [String]
  /// Content types of document types with `LSTypeIsPackage`.
  public var packageContentTypes: [String]

  /// Parses an Info.plist; nil when it is not a property list dictionary. Members of the wrong type count as absent.
  public init?(_ bytes: [UInt8]) {
    guard let info = PropertyListValue.parse(bytes), case .dictionary = info else { return nil }
    displayName = Self.name(in: info, key: "CFBundleDisplayName")
    name = Self.name(in: info, key: "CFBundleName")
    identifier = info["CFBundleIdentifier"]?.text
    developmentRegion = info["CFBundleDevelopmentRegion"]?.text
    localizations = info["CFBundleLocalizations"]?.oneOrMoreTexts ?? []
    hasLocalizedDisplayName = info["LSHasLocalizedDisplayName"]?.boolValue
    types =
      Self.types(in: info["UTExportedTypeDeclarations"], exported: true)
      + Self.types(in: info["UTImportedTypeDeclarations"], exported: false)
    let primary = info["CFBundleIcons"]?["CFBundlePrimaryIcon"]
    let names = [
      info["CFBundleIconFile"], info["CFBundleIconName"], info["CFBundleIconFiles"],
      primary?["CFBundleIconFiles"],
    ]
    iconNames = names.flatMap { $0?.oneOrMoreTexts ?? [] }.filter { !Self.isBlank($0) }
    let packages = (info["CFBundleDocumentTypes"]?.elements ?? []).filter {
      $0["LSTypeIsPackage"]?.boolValue == true
    }
    packageExtensions = packages.flatMap { $0["CFBundleTypeExtensions"]?.oneOrMoreTexts ?? [] }.filter {
      $0 != "*"
    }
    packageContentTypes = packages.flatMap { $0["LSItemContentTypes"]?.oneOrMoreTexts ?? [] }
  }

  /// The name under `key` in a localized table, with the same precedence as in Info.plist: the macOS variant first, and never a
  /// blank one.
  public static func localizedName(in table: [String: String], key: String) -> String? {
    [table[key + "-macos"], table[key]].lazy.compactMap { $0 }.first { !isBlank($0) }
  }

  private static func name(in info: PropertyListValue, key: String) -> String? {
    [info[key + "-macos"], info[key]].lazy.compactMap { $0?.text }.first { !isBlank($0) }
  }

  private static func isBlank(_ text: String) -> Bool { text.allSatisfy(\.isWhitespace) }

  private static func types(in list: PropertyListValue?, exported: Bool) -> [TypeDeclaration] {
    (list?.elements ?? []).compactMap { declaration in
      guard let identifier = declaration["UTTypeIdentifier"]?.text, !identifier.isEmpty else { return nil }
      let tags = declaration["UTTypeTagSpecification"]?["public.filename-extension"]
      return TypeDeclaration(
        identifier: identifier,
        conformsTo: declaration["UTTypeConformsTo"]?.oneOrMoreTexts ?? [],
        extensions: tags?.oneOrMoreTexts ?? [],
        exported: exported)
    }
  }
}
