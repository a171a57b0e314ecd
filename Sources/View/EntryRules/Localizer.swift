import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Finds the localized names of directories: reads the tables on the volume and applies the rules to them.
struct Localizer: Sendable {
  private let languages: [LanguageTag]
  /// Whether the view is used by all users. Then text from a file becomes a name only by the rule of `Audience`.
  private let isShared: Bool
  /// The volume's own SystemFolderLocalizations in the view's language.
  private let volumeTable: [String: String]?
  /// By real name, so that no name has to become text: every directory is looked up.
  private let builtInTable: [Name: String]
  private let malformedMetadataLog: MalformedMetadataLog

  init(
    languages: [LanguageTag], root: Directory, isShared: Bool, malformedMetadataLog: MalformedMetadataLog
  ) {
    self.languages = languages
    self.isShared = isShared
    self.malformedMetadataLog = malformedMetadataLog
    volumeTable = Self.tables(
      at: "System/Library/CoreServices/SystemFolderLocalizations",
      fileName: "SystemFolderLocalizations.strings",
      below: root, languages: languages, isShared: isShared, malformedMetadataLog: malformedMetadataLog)
    let builtIn =
      LanguageMatch.best(preferred: languages, available: FolderNames.languages)
      .flatMap { FolderNames.names(in: $0) } ?? [:]
    builtInTable = Dictionary(uniqueKeysWithValues: builtIn.map { (Name($0.key), $0.value) })
  }

  /// Sets the localized name of a directory, from any of the mechanisms that can define one.
  ///
  /// - Parameter sources: receives the directories that were read.
  func localize(
    _ child: inout Projection.Child, in directory: Directory, showsExtensions: Bool, sources: inout [[UInt8]]
  ) {
    let name = child.realName
    if child.kind == .package {
      if !showsExtensions { child.localized = bundleName(of: name, in: directory, sources: &sources) }
      return
    }
    let stemLength = LocalizedDirectory.stemLength(of: name.bytes.span)
    let nameIfMarked =
      stemLength == nil
      ? LocalizedDirectory.nameOfMarked(name, volumeTable: volumeTable) { builtInTable[$0] } : nil
    // Only a directory that could get a localized name is read, and watched for a marker that appears or disappears.
    guard stemLength != nil || nameIfMarked != nil else { return }
    sources.append(name.bytes)
    let marker = name.bytes + Array("/.localized".utf8)
    guard let status = marker.withCName({ try? directory.statusBeneath($0) }) else { return }
    if let stemLength {
      guard FileType(mode: status.st_mode) == .directory else { return }
      sources.append(marker)
      let strings = stringTable(in: marker, directory)
      child.localized = LocalizedDirectory.nameOfSelfLocalized(name, strings: strings)
      child.stemLength = stemLength
    } else {
      child.localized = nameIfMarked
    }
  }

  // MARK: X.localized

  /// `<language>.strings` in a `.localized` directory.
  private func stringTable(in path: [UInt8], _ directory: Directory) -> [String: String] {
    let suffix = Array(".strings".utf8)
    let available = entries(of: path, in: directory, suffix: suffix)
    guard let language = LanguageMatch.best(preferred: languages, available: available) else { return [:] }
    return table(path + [0x2f] + Array(language.utf8) + suffix, in: directory) ?? [:]
  }

  // MARK: Applications

  private func bundleName(of name: Name, in directory: Directory, sources: inout [[UInt8]]) -> Name? {
    guard BundleName.isLocalizable(name.bytes.span) else { return nil }
    for layout in BundleLayout.allCases {
      let bytes = read(name.bytes + layout.infoPlist, in: directory)
      if bytes != nil || isWithheld(name.bytes + layout.infoPlist, in: directory) {
        sources.append(name.bytes + layout.directory)
      }
      guard let bytes else { continue }
      guard let info = BundleInfo(bytes) else {
        malformedMetadataLog.noteIgnored("Info.plist", of: name)
        return nil
      }
      let declared = BundleNames(displayName: info.displayName, name: info.name)
      // Most applications were never renamed. Those that were need no table.
      guard BundleName.isOriginal(name, declared: declared) else { return nil }
      sources.append(name.bytes + layout.resources)
      guard let table = bundleTable(name.bytes + layout.resources, in: directory, info, sources: &sources)
      else {
        return nil
      }
      return BundleName.localized(name, declared: declared, localized: BundleNames { table[$0] })
    }
    return nil
  }

  /// How many of the best languages of an application without a table in them are watched for one.
  private static let watchedLanguages = 4

  /// The table of InfoPlist.strings in the best language, or else the one in InfoPlist.loctable.
  private func bundleTable(
    _ resources: [UInt8], in directory: Directory, _ info: BundleInfo, sources: inout [[UInt8]]
  ) -> [String: String]? {
    let suffix = Array(".lproj".utf8)
    let file = Array("/InfoPlist.strings".utf8)
    func folder(_ language: String) -> [UInt8] { resources + [0x2f] + Array(language.utf8) + suffix }
    let folders = entries(of: resources, in: directory, suffix: suffix)
    func best(of available: [String]) -> String? {
      LanguageMatch.best(
        preferred: languages, available: available, developmentRegion: info.developmentRegion)
    }
    let language = best(of: folders.filter { directory.hasFile(folder($0) + file) })
    // A table may appear in a better language.
    var candidates = folders
    while let candidate = best(of: candidates), folders.count - candidates.count < Self.watchedLanguages {
      sources.append(folder(candidate))
      if candidate == language { break }
      candidates.removeAll { $0 == candidate }
    }
    if let language, let table = table(folder(language) + file, in: directory),
      BundleNames({ table[$0] }) != BundleNames()
    {
      sources.append(folder(language))
      return table
    }
    guard let bytes = read(resources + Array("/InfoPlist.loctable".utf8), in: directory) else { return nil }
    guard let tables = LocalizationTable.parse(bytes) else {
      malformedMetadataLog.noteIgnored("InfoPlist.loctable", of: Name(resources))
      return nil
    }
    return LanguageMatch.best(
      preferred: languages, available: tables.keys.sorted(), developmentRegion: info.developmentRegion
    ).flatMap { tables[$0] }
  }

  // MARK: Desktop entries

  /// The name that a `.desktop` file gives itself, or that the `.directory` file in a directory gives that directory.
  func desktopName(of child: Projection.Child, in directory: Directory, sources: inout [[UInt8]]) -> Name? {
    let name = child.realName
    let path: [UInt8]
    switch child.kind {
    case .directory: path = name.bytes + Array("/.directory".utf8)
    case .file where name.bytes.suffix(8).elementsEqual(".desktop".utf8): path = name.bytes
    default: return nil
    }
    let bytes = read(path, in: directory)
    if child.kind == .directory, bytes != nil || isWithheld(path, in: directory) {
      sources.append(name.bytes)
    }
    guard let bytes else { return nil }
    guard let names = DesktopEntry.names(bytes) else {
      malformedMetadataLog.noteIgnored("desktop entry", of: Name(path))
      return nil
    }
    for language in languages {
      let found = language.localeNames.lazy.compactMap { names[$0] }.first
      if let found = found ?? (language.language == "en" ? names[""] : nil) {
        return LocalizedName.sanitize(found, realName: name)
      }
    }
    return names[""].flatMap { LocalizedName.sanitize($0, realName: name) }
  }

  // MARK: XDG user directories

  /// The names in the view's language of those user directories of a home that lie at `path` in it, by real name.
  func userDirectories(of home: Directory, in path: [Name]) -> [Name: Name] {
    guard let bytes = home.smallFile(".config/user-dirs.dirs", limit: ParserLimits.inputBytes) else {
      return [:]
    }
    var result: [Name: Name] = [:]
    for (directory, location) in UserDirectory.parse(bytes) ?? [:] {
      guard case .inHome(let location) = location else { continue }
      let names = location.split(separator: 0x2f).map { Name($0) }
      guard let real = names.last, names.dropLast().elementsEqual(path),
        let translated = translate(directory.defaultName)
      else { continue }
      if let name = LocalizedName.sanitize(translated, realName: real), name != real { result[real] = name }
    }
    return result
  }

  /// The desktop's name for a user directory. The machine's own translations take precedence over the built-in ones.
  private func translate(_ original: String) -> String? {
    let locales = Directory(descriptor: AT_FDCWD)
    for language in languages {
      if language.language == "en" { return original }
      for spelling in language.localeNames {
        let path = "/usr/share/locale/\(spelling)/LC_MESSAGES/\(UserDirectory.translationDomain).mo"
        if let bytes = locales.wholeFile(path), let catalog = MessageCatalog(bytes),
          let translated = catalog.translation(of: original)
        {
          return translated
        }
      }
      if let builtIn = LanguageMatch.best(
        preferred: [language], available: FolderNames.userDirectoryLanguages),
        let translated = FolderNames.userDirectoryNames(in: builtIn)?[original]
      {
        return translated
      }
    }
    return nil
  }

  // MARK: Reading

  private func read(_ path: [UInt8], in directory: Directory) -> [UInt8]? {
    guard let bytes = path.withCName({ directory.smallFile($0, limit: ParserLimits.inputBytes) }) else {
      return nil
    }
    return !isShared || Audience(of: directory)?.mayRead(path, in: directory) == true ? bytes : nil
  }

  /// Whether there is a file that `read` does not return. Its permissions may change, so its directory is watched.
  private func isWithheld(_ path: [UInt8], in directory: Directory) -> Bool {
    isShared && directory.hasFile(path)
  }

  private func table(_ path: [UInt8], in directory: Directory) -> [String: String]? {
    guard let bytes = read(path, in: directory) else { return nil }
    guard let table = StringTable.parse(bytes) else {
      malformedMetadataLog.noteIgnored("string table", of: Name(path))
      return nil
    }
    return table
  }

  /// The names of a directory's entries that end in `suffix`, without the suffix.
  private func entries(of path: [UInt8], in directory: Directory, suffix: [UInt8]) -> [String] {
    let opened = path.withCName { try? directory.openBeneath($0, O_RDONLY | O_DIRECTORY) }
    guard let opened else { return [] }
    var names: [String] = []
    try? forEachEntry(of: opened.rawValue) { entry in
      guard entry.name.count > suffix.count, entry.name.suffix(suffix.count).elementsEqual(suffix),
        names.count < 1000,
        let text = Name(entry.name.dropLast(suffix.count)).text
      else { return }
      names.append(text)
    }
    return names.sorted()
  }

  private static func tables(
    at path: String, fileName: String, below root: Directory, languages: [LanguageTag], isShared: Bool,
    malformedMetadataLog: MalformedMetadataLog
  ) -> [String: String]? {
    let reader = Localizer(
      languages: languages, isShared: isShared, malformedMetadataLog: malformedMetadataLog)
    let available = reader.entries(of: Array(path.utf8), in: root, suffix: Array(".lproj".utf8))
    // The volume's table must be in a language that ranks no lower than that of the built-in table: names in English on the
    // volume are no better than built-in names in the requested language.
    let builtIn = LanguageMatch.bestPreferred(for: languages, available: FolderNames.languages)
    guard let own = LanguageMatch.bestPreferred(for: languages, available: available),
      own.rank <= builtIn?.rank ?? .max
    else { return nil }
    return reader.table(Array("\(path)/\(own.table).lproj/\(fileName)".utf8), in: root)
  }

  /// Makes a reader of tables, for use before there are any.
  private init(languages: [LanguageTag], isShared: Bool, malformedMetadataLog: MalformedMetadataLog) {
    self.languages = languages
    self.isShared = isShared
    self.malformedMetadataLog = malformedMetadataLog
    volumeTable = nil
    builtInTable = [:]
  }
}

/// The layouts of a bundle with a property list: the Mac's and the flat one of iOS.
private enum BundleLayout: CaseIterable {
  case contents, flat

  var directory: [UInt8] { Array((self == .contents ? "/Contents" : "").utf8) }
  var infoPlist: [UInt8] { Array((self == .contents ? "/Contents/Info.plist" : "/Info.plist").utf8) }
  var resources: [UInt8] { Array((self == .contents ? "/Contents/Resources" : "").utf8) }
}

extension LanguageTag {
  /// The names of the locales with translations for this language, closest first, as gettext spells them.
  var localeNames: [String] {
    var names: [String] = []
    if let region { names.append("\(language)_\(region)") }
    if language == "zh" { names.append(script == "Hant" ? "zh_TW" : "zh_CN") }
    if let script {
      names.append(
        "\(language)@\(script == "Latn" ? "latin" : script == "Cyrl" ? "cyrillic" : script.lowercased())")
    }
    names.append(language)
    if language == "pt" { names.append("pt_BR") }
    if language == "no" { names.append("nb") }
    return names
  }
}
