import Testing

@testable import DisplayNames

struct FolderNamesTests {
  static let realNames: Set<String> = [
    "Applications", "Utilities", "Desktop", "Documents", "Downloads", "Library", "Movies", "Music",
    "Pictures",
    "Public", "Sites", "Users", "Shared", "System", "Drop Box", "Favorites", "Network", "Servers", "Server",
    "Guest", "Local", "Groups", "Faxes", "Deleted Users", "My Applications", "Saved Searches", "Shared Items",
    "Compositions", "Configuration", "Incompatible Software", "Mail Downloads", "My Network",
    "Recovered files",
    "Relocated Items", "Security", "Web Receipts",
  ]
  static let userDirectories: Set<String> = [
    "Desktop", "Downloads", "Templates", "Public", "Documents", "Music", "Pictures", "Videos",
  ]

  @Test func folderNames_coverThirtyNineLanguages() {
    #expect(
      FolderNames.languages == [
        "ar", "ca", "cs", "da", "de", "el", "en", "en-AU", "en-GB", "es", "es-419", "fi", "fr", "fr-CA", "he",
        "hi",
        "hr", "hu", "id", "it", "ja", "ko", "ms", "nb", "nl", "pl", "pt-BR", "pt-PT", "ro", "ru", "sk", "sv",
        "th",
        "tr", "uk", "vi", "zh-HK", "zh-Hans", "zh-Hant",
      ])
  }

  @Test(arguments: FolderNames.languages)
  func everyLanguage_namesEveryFolder(language: String) throws {
    let names = try #require(FolderNames.names(in: language))
    #expect(Set(names.keys) == Self.realNames)
    for (real, name) in names { #expect(isGoodFileName(name), "\(language): \(real)") }
  }

  @Test(arguments: FolderNames.userDirectoryLanguages)
  func everyLanguage_namesEveryUserDirectory(language: String) throws {
    let names = try #require(FolderNames.userDirectoryNames(in: language))
    #expect(Set(names.keys) == Self.userDirectories)
    for (real, name) in names { #expect(isGoodFileName(name), "\(language): \(real)") }
  }

  /// A line with a cell too many would parse: the surplus falls off and its neighbours shift.
  @Test(arguments: [
    (FolderNamesTable.folders, FolderNamesTable.folderNames),
    (FolderNamesTable.userDirectories, FolderNamesTable.userDirectoryNames),
  ])
  func everyTableLine_hasOneCellPerKey(keys: String, table: String) {
    let width = keys.split(separator: " | ", omittingEmptySubsequences: false).count + 1
    var seen: Set<Substring> = []
    for line in table.split(separator: "\n", omittingEmptySubsequences: false) {
      let cells = line.split(separator: " | ", omittingEmptySubsequences: false)
      #expect(cells.count == width, "\(cells.first ?? "")")
      #expect(seen.insert(cells[0]).inserted, "\(cells[0]) twice")
    }
  }

  @Test func names_ofInexactLanguageTag_areNil() {
    for tag in ["", "DE", "de-AT", "de_DE", "pt", "zh", "no", "tlh"] {
      #expect(FolderNames.names(in: tag) == nil, "\(tag)")
      #expect(FolderNames.userDirectoryNames(in: tag) == nil, "\(tag)")
    }
  }

  @Test func englishNames_equalRealNames() throws {
    let english = try #require(FolderNames.names(in: "en"))
    for (real, name) in english { #expect(real == name) }
    let british = try #require(FolderNames.names(in: "en-GB"))
    #expect(british.filter { $0.key != $0.value } == ["Favorites": "Favourites"])
  }

  @Test func germanNames_areThoseOfFinder() {
    #expect(
      FolderNames.names(in: "de") == [
        "Applications": "Programme", "Utilities": "Dienstprogramme", "Desktop": "Schreibtisch",
        "Documents": "Dokumente", "Downloads": "Downloads", "Library": "Library", "Movies": "Filme",
        "Music": "Musik", "Pictures": "Bilder", "Public": "Öffentlich", "Sites": "Websites",
        "Users": "Benutzer",
        "Shared": "Geteilt", "System": "System", "Drop Box": "Briefkasten", "Favorites": "Favoriten",
        "Network": "Netzwerk", "Servers": "Server", "Server": "Server", "Guest": "Gast", "Local": "Lokal",
        "Groups": "Gruppen", "Faxes": "Faxe", "Deleted Users": "Gelöschte Benutzer",
        "My Applications": "Meine Programme", "Saved Searches": "Gesicherte Suchabfragen",
        "Shared Items": "Freigegebene Objekte", "Compositions": "Kompositionen",
        "Configuration": "Konfiguration",
        "Incompatible Software": "Inkompatible Software", "Mail Downloads": "Mail-Downloads",
        "My Network": "Mein Netzwerk", "Recovered files": "Wiederhergestellte Dateien",
        "Relocated Items": "Verschobene Objekte", "Security": "Sicherheit", "Web Receipts": "Web-Belege",
      ])
  }

  @Test func frenchNames_areThoseOfFinder() {
    #expect(
      FolderNames.names(in: "fr") == [
        "Applications": "Applications", "Utilities": "Utilitaires", "Desktop": "Bureau",
        "Documents": "Documents",
        "Downloads": "Téléchargements", "Library": "Bibliothèque", "Movies": "Vidéos", "Music": "Musique",
        "Pictures": "Images", "Public": "Public", "Sites": "Sites", "Users": "Utilisateurs",
        "Shared": "Partagé",
        "System": "Système", "Drop Box": "Boîte de dépôt", "Favorites": "Favoris", "Network": "Réseau",
        "Servers": "Serveurs", "Server": "Serveur", "Guest": "Invité", "Local": "Local", "Groups": "Groupes",
        "Faxes": "Fax", "Deleted Users": "Utilisateurs supprimés", "My Applications": "Mes applications",
        "Saved Searches": "Recherches enregistrées", "Shared Items": "Éléments partagés",
        "Compositions": "Compositions", "Configuration": "Configuration",
        "Incompatible Software": "Logiciels incompatibles", "Mail Downloads": "Téléchargements Mail",
        "My Network": "Mon réseau", "Recovered files": "Fichiers récupérés",
        "Relocated Items": "Éléments déplacés", "Security": "Sécurité", "Web Receipts": "Reçus web",
      ])
  }

  @Test(arguments: [
    ("es", "Applications", "Aplicaciones"), ("es", "Desktop", "Escritorio"), ("it", "Library", "Libreria"),
    ("ja", "Documents", "書類"), ("ja", "Users", "ユーザ"), ("ko", "Applications", "응용 프로그램"),
    ("nl", "Pictures", "Afbeeldingen"), ("pt-BR", "Desktop", "Mesa"), ("pt-PT", "Desktop", "Secretária"),
    ("ru", "Downloads", "Загрузки"), ("sv", "Public", "Delad"), ("sv", "Shared", "Delad"),
    ("tr", "Music", "Müzik"), ("zh-Hans", "Library", "资源库"), ("zh-Hant", "Network", "網路"),
    ("zh-HK", "Network", "網絡"), ("ar", "Applications", "التطبيقات"), ("th", "System", "ระบบ"),
  ])
  func folderNames_areThoseOfFinder(language: String, real: String, name: String) {
    #expect(FolderNames.names(in: language)?[real] == name)
  }

  @Test(arguments: [
    ("de", "Videos", "Videos"), ("de", "Templates", "Vorlagen"), ("fr", "Desktop", "Bureau"),
    ("it", "Downloads", "Scaricati"), ("ja", "Documents", "ドキュメント"), ("pl", "Downloads", "Pobrane"),
    ("sl", "Desktop", "Namizje"), ("zh-Hans", "Videos", "视频"),
  ])
  func userDirectoryNames_areThoseOfLinuxDesktops(language: String, real: String, name: String) {
    #expect(FolderNames.userDirectoryNames(in: language)?[real] == name)
  }

  /// Also refuses what cannot be seen: a soft hyphen or a zero-width character cannot be typed back.
  private func isGoodFileName(_ name: String) -> Bool {
    guard (1...255).contains(name.utf8.count), name != ".", name != ".." else { return false }
    guard name.first?.isWhitespace == false, name.last?.isWhitespace == false else { return false }
    return name.unicodeScalars.allSatisfy { scalar in
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator: false
      default: scalar != "/" && scalar != ":"
      }
    }
  }
}
