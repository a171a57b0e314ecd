/// The names of an application bundle, from its Info.plist or from one language's string table.
public struct BundleNames: Sendable, Equatable {
  /// `CFBundleDisplayName`, nil if missing or blank.
  public let displayName: String?
  /// `CFBundleName`, nil if missing or blank.
  public let name: String?

  public init(displayName: String? = nil, name: String? = nil) {
    self.displayName = Self.meaningful(displayName)
    self.name = Self.meaningful(name)
  }

  /// Reads the names from a property list or string table. Values for macOS only, under the key with the suffix `-macos`, take
  /// precedence, as in CFBundle.
  public init(_ value: (String) -> String?) {
    func read(_ key: String) -> String? {
      Self.meaningful(value(key + "-macos")) ?? Self.meaningful(value(key))
    }
    displayName = read("CFBundleDisplayName")
    name = read("CFBundleName")
  }

  /// The name to use: the display name if there is one.
  var preferred: String? { displayName ?? name }

  private static func meaningful(_ value: String?) -> String? {
    guard let value, value.unicodeScalars.contains(where: { !$0.properties.isWhitespace }) else { return nil }
    return value
  }
}

/// The localized name of an application bundle.
public enum BundleName {
  /// Whether a bundle with this name may have a localized name: applications and the other types that conform to
  /// `com.apple.localizable-name-bundle`.
  public static func isLocalizable(_ directoryName: Span<UInt8>) -> Bool {
    guard let stem = FileExtension.stemLength(of: directoryName) else { return false }
    return localizable.contains(directoryName, from: stem + 1)
  }

  /// Whether the bundle still has the name that its Info.plist declares. If not, a user has renamed it, and the user's name is
  /// shown ("File System Overview", Display Names).
  public static func isOriginal(_ directoryName: Name, declared: BundleNames) -> Bool {
    guard isLocalizable(directoryName.bytes.span), let base = base(of: directoryName)?.text else {
      return false
    }
    // String equality is canonical equivalence, which is needed because HFS+ stores names decomposed.
    return declared.preferred == base
  }

  /// The name to show in place of `directoryName`; nil when the bundle has no localized name.
  ///
  /// `declared` are the names in its Info.plist, `localized` those of the chosen language's table. A localized name that ends in
  /// a known extension is rejected: an application must not look like a document.
  public static func localized(
    _ directoryName: Name, declared: BundleNames, localized: BundleNames,
    known: ExtensionSet = KnownExtensions.known
  ) -> Name? {
    guard isOriginal(directoryName, declared: declared), let value = localized.preferred,
      let name = LocalizedName.sanitize(value, realName: directoryName),
      !known.containsExtension(of: name.bytes.span)
    else { return nil }
    return name
  }

  private static func base(of directoryName: Name) -> Name? {
    FileExtension.stemLength(of: directoryName.bytes.span).map { Name(directoryName.bytes.prefix($0)) }
  }

  private static let localizable = ExtensionSet(words: "app dext lpdf systemextension wdgt")
}
