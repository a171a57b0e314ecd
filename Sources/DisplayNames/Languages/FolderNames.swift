/// The built-in localized names of standard folders, for volumes and machines without a table of their own.
///
/// Tags are matched exactly (`de`, `en-GB`, `pt-BR`, `zh-Hans`); `LanguageMatch` chooses the nearest language. Names are valid
/// file names (not empty, no `/`, no control characters, at most 255 bytes of UTF-8) but may be equal to each other: in Swedish
/// both `Public` and `Shared` are `Delad`.
public enum FolderNames {
  /// The BCP 47 tags that ``names(in:)`` knows, sorted.
  public static let languages: [String] = folders.keys.sorted()

  /// The BCP 47 tags that ``userDirectoryNames(in:)`` knows, sorted.
  public static let userDirectoryLanguages: [String] = userDirectories.keys.sorted()

  /// The names of the standard folders of a Mac volume and home directory, real name to localized name: `"Applications":
  /// "Programme"`. A known language has all of them; nil for an unknown language.
  ///
  /// The Finder translates these real names when the folder contains a `.localized` marker ("File System Overview", Display
  /// Names).
  public static func names(in language: String) -> [String: String]? { folders[language] }

  /// The names of the eight XDG user directories, English name to localized name, for machines without the translations of
  /// xdg-user-dirs. Nil for an unknown language.
  public static func userDirectoryNames(in language: String) -> [String: String]? {
    userDirectories[language]
  }

  private static let folders = parse(FolderNamesTable.folderNames, keys: FolderNamesTable.folders)
  private static let userDirectories = parse(
    FolderNamesTable.userDirectoryNames, keys: FolderNamesTable.userDirectories)

  /// One dictionary per line of `table`: the first cell is the language, the other cells are the values for `keys` in order.
  private static func parse(_ table: String, keys: String) -> [String: [String: String]] {
    let keys = cells(keys[...])
    var languages: [String: [String: String]] = [:]
    for line in table.split(separator: "\n") {
      let row = cells(line)
      guard let language = row.first else { continue }
      languages[language] = Dictionary(zip(keys, row.dropFirst()), uniquingKeysWith: { first, _ in first })
    }
    return languages
  }

  private static func cells(_ line: Substring) -> [String] { line.split(separator: " | ").map { String($0) } }
}
