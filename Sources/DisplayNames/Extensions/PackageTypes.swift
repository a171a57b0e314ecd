/// A type of package.
public struct PackageType: Sendable, Hashable {
  /// The uniform type identifier, such as `com.apple.rtfd`.
  public let uti: String
  /// Whether a directory is a package only if it contains `Contents/Info.plist` or `Info.plist`. Set for types whose extension
  /// also occurs in names of ordinary directories, such as `Microsoft.NETCore.App` and `vim.plugin`.
  public let needsInfoPlist: Bool

  public init(uti: String, needsInfoPlist: Bool = false) {
    self.uti = uti
    self.needsInfoPlist = needsInfoPlist
  }

  /// A directory that is a package by its bundle bit, without a known type.
  public static let byBundleBit = PackageType(uti: "com.apple.package")
}

/// Decides by the extension which directories are packages ("Bundle Programming Guide", About Bundles: a known extension, one
/// declared by an application, or the bundle bit).
public struct PackageTypes: Sendable {
  private var types: [FoldedExtension: PackageType] = [:]
  /// The first extension that was added for each type.
  private var firstExtensions: [String: String] = [:]
  /// Every extension that may make a directory a package.
  public private(set) var extensions = ExtensionSet()

  /// The uniform type identifiers of all these types.
  public var identifiers: Set<String> { Set(types.values.map(\.uti)) }

  private init() {}

  /// The type of a directory named `name`, compared without regard to case; nil for a plain directory.
  ///
  /// `hasBundleBit` is the bundle bit of its Finder info, which makes any directory a package. Where
  /// ``PackageType/needsInfoPlist`` is set, the caller must still check for an information property list.
  public func type(of name: Span<UInt8>, hasBundleBit: Bool = false) -> PackageType? {
    if let stem = FileExtension.stemLength(of: name), let key = FoldedExtension(name, from: stem + 1),
      let type = types[key]
    {
      return hasBundleBit ? PackageType(uti: type.uti) : type
    }
    return hasBundleBit ? .byBundleBit : nil
  }

  /// The identifier of a package's type for use outside its directory: the uniform type identifier, followed by the extension
  /// where the type identifier alone does not determine it.
  public func identifier(of name: Name) -> String {
    guard let type = type(of: name.bytes.span), let stem = FileExtension.stemLength(of: name.bytes.span),
      let text = Name(name.bytes[(stem + 1)...]).text
    else { return PackageType.byBundleBit.uti }
    let ext = text.lowercased()
    return firstExtensions[type.uti]?.lowercased() == ext ? type.uti : "\(type.uti).\(ext)"
  }

  /// The inverse of `identifier(of:)`; nil when no extension has that identifier here.
  public func fileExtension(of identifier: String) -> String? {
    if let ext = firstExtensions[identifier] { return ext }
    guard let period = identifier.lastIndex(of: ".") else { return nil }
    let ext = String(identifier[identifier.index(after: period)...])
    guard let key = FoldedExtension(ext), types[key]?.uti == String(identifier[..<period]) else { return nil }
    return ext
  }

  /// Adds a type declared by an application. A type already present for the extension is kept.
  ///
  /// - Returns: false when `ext` is not a valid extension, or is one that the Finder always shows as a folder.
  @discardableResult
  public mutating func insert(_ ext: String, type: PackageType) -> Bool {
    guard !Self.folders.contains(ext), ExtensionSet([ext]).count == 1, let key = FoldedExtension(ext) else {
      return false
    }
    if types[key] == nil {
      types[key] = type
      if type.uti != PackageType.byBundleBit.uti, firstExtensions[type.uti] == nil {
        firstExtensions[type.uti] = ext
      }
    }
    extensions = extensions.inserting([ext])
    return true
  }

  /// The types declared by the system and by common applications.
  ///
  /// Left out because ordinary directories have these extensions: `action`, `book`, `component`, `dist` (build output),
  /// `download`, `fs`, `help`, `menu`, `placeholder`, `ppp`, `pvt`, `service`, `suggestionsassets`, `template`, `theater`,
  /// `trace`. Included, but only with an Info.plist, which a real one always has: `app`, `bundle`, `plugin`, `pkg`, `workflow`,
  /// `xpc` and other code. Included without: `key`, `pages` and `numbers`, whose documents were directories for years and have no
  /// Info.plist.
  public static let builtIn: PackageTypes = {
    var table = PackageTypes()
    for line in bundles.split(separator: "\n") { table.insert(line: line, needsInfoPlist: true) }
    for line in documents.split(separator: "\n") { table.insert(line: line, needsInfoPlist: false) }
    return table
  }()

  /// Directories with an extension that are always folders: users open frameworks and localization directories, and asset
  /// catalogues and the rest are folders by their declared type.
  private static let folders = ExtensionSet(
    words: "framework lproj iconset fpbf xcassets xcframework localized noindex mlmodelc")

  private mutating func insert(line: Substring, needsInfoPlist: Bool) {
    let words = line.split(separator: " ").map(String.init)
    guard let uti = words.first else { return }
    for ext in words.dropFirst() { insert(ext, type: PackageType(uti: uti, needsInfoPlist: needsInfoPlist)) }
  }

  private static let bundles = """
    com.apple.application-bundle app
    com.apple.application-and-system-extension appex
    com.apple.generic-bundle bundle
    com.apple.plugin plugin
    com.apple.kernel-extension kext
    com.apple.driver-extension dext
    com.apple.xpc-service xpc
    com.apple.system-extension systemextension
    com.apple.systempreference.prefpane prefPane
    com.apple.systempreference.screen-saver saver
    com.apple.quicklook-generator qlgenerator
    com.apple.metadata-importer mdimporter
    com.apple.webkit-plugin webplugin
    com.apple.pluginkit pluginkit
    com.apple.installer-package pkg
    com.apple.installer-meta-package mpkg
    com.apple.dashboard-widget wdgt
    com.apple.xcode.dsym dSYM
    com.apple.automator-workflow workflow
    com.apple.automator-conversion-action caction
    com.apple.package docset xcarchive
    """

  private static let documents = """
    com.apple.systempreference.screen-slide-saver slideSaver
    com.apple.rtfd rtfd
    com.apple.localized-pdf-bundle lpdf
    com.apple.iWork.Pages.pages pages
    com.apple.iWork.Pages.pages-tef pages-tef
    com.apple.iWork.Numbers.numbers numbers
    com.apple.iWork.Numbers.numbers-tef numbers-tef
    com.apple.iWork.Numbers.template nmbtemplate
    com.apple.iWork.Keynote.key key
    com.apple.iWork.Keynote.key-tef key-tef
    com.apple.iWork.Keynote.kth kth
    com.apple.installer-distribution-package distz
    com.apple.applescript.script-bundle scptd
    com.apple.garageband.project band gbProj
    com.apple.iMovieLibrary imovielibrary
    com.apple.coreml.mlpackage mlpackage
    com.apple.pkpass pkpass
    public.avchd-collection avchd
    com.apple.photos.library photoslibrary
    com.apple.photo.library photolibrary
    com.apple.music.library musiclibrary
    com.apple.xcode.project xcodeproj
    com.apple.dt.document.workspace xcworkspace
    com.apple.dt.playground playground
    com.apple.disk-image-sparse-bundle sparsebundle backupbundle
    com.apple.package migratedphotolibrary aplibrary tvlibrary
    com.apple.package fcpbundle logicx logicpro imovieproj rcproject vst vst3 audiounit
    com.apple.package docarchive xcdatamodeld scnassets logarchive textbundle bbprojectd scriv graffle
    com.apple.package vmwarevm pvm utm playgroundbook iba
    """
}
