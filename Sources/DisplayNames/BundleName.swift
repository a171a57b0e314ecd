/// The names that an application bundle gives itself: those of its Info.plist, or of one language's table.
public struct BundleNames: Sendable, Equatable {
  /// `CFBundleDisplayName`, nil if missing or blank.
  public let displayName: String?
  /// `CFBundleName`, nil if missing or blank.
  public let name: String?

  public init(displayName: String? = nil, name: String? = nil) {
    self.displayName = Self.meaningful(displayName)
    self.name = Self.meaningful(name)
  }

  /// Reads the names from a property list or string table. The values for the Mac alone, with `-macos` after
  /// the key, come first, as in CFBundle.
  public init(_ value: (String) -> String?) {
    func read(_ key: String) -> String? {
      Self.meaningful(value(key + "-macos")) ?? Self.meaningful(value(key))
    }
    displayName = read("CFBundleDisplayName")
    name = read("CFBundleName")
  }

  /// The one that counts.
  var preferred: String? { displayName ?? name }

  private static func meaningful(_ value: String?) -> String? {
    guard let value, value.unicodeScalars.contains(where: { !$0.properties.isWhitespace }) else { return nil }
    return value
  }
}

/// The localized name of an application bundle.
public enum BundleName {
  /// Whether bundles with this name may have a localized one: applications and the other types that conform to
  /// `com.apple.localizable-name-bundle`.
  public static func isLocalizable(_ directoryName: Span<UInt8>) -> Bool {
    guard let stem = FileExtension.stemLength(of: directoryName) else { return false }
    return localizable.contains(directoryName, from: stem + 1)
  }

  /// Whether the bundle is still called what its Info.plist says. If not, somebody renamed it, and the name they
  /// gave it is the one to show ("File System Overview", Display Names).
  public static func isOriginal(_ directoryName: Name, declared: BundleNames) -> Bool {
    guard isLocalizable(directoryName.bytes.span), let base = base(of: directoryName)?.text else {
      return false
    }
    // Equality of strings is canonical equivalence: HFS+ stores names decomposed.
    return declared.preferred == base
  }

  /// The name to show in place of `directoryName`, or nil when it is to be treated like any package.
  ///
  /// `declared` are the names in its Info.plist, `localized` those of the chosen language's table. A localized
  /// name that ends in a known extension is refused: an application must not pass for a document.
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
