/// The built-in localized names of standard folders, for volumes and machines that bring no table of their own.
///
/// Tags are matched exactly (`de`, `en-GB`, `pt-BR`, `zh-Hans`); choosing the nearest language is the
/// language matcher's part. Names are valid file names (not empty, no `/`, no control characters,
/// at most 255 bytes of UTF-8) but need not differ from each other: in Swedish both `Public` and `Shared` are `Delad`.
public enum FolderNames {
  /// The BCP 47 tags that ``names(in:)`` knows, in the order of their letters.
  public static let languages: [String] = folders.keys.sorted()

  /// The BCP 47 tags that ``userDirectoryNames(in:)`` knows, in the order of their letters.
  public static let userDirectoryLanguages: [String] = userDirectories.keys.sorted()

  /// The names of the standard folders of a Mac volume and home directory: real name to localized name,
  /// `"Applications": "Programme"`. A language has all of them or, when it is unknown, nil.
  ///
  /// The real names are those the Finder translates when the folder holds a `.localized` marker
  /// ("File System Overview", Display Names).
  public static func names(in language: String) -> [String: String]? { folders[language] }

  /// The names of the XDG user directories: `"Videos"` and its seven siblings to the localized name,
  /// for when the machine's own translations (xdg-user-dirs) are not installed; nil for an unknown language.
  public static func userDirectoryNames(in language: String) -> [String: String]? {
    userDirectories[language]
  }

  private static let folders = parse(FolderNamesTable.folderNames, keys: FolderNamesTable.folders)
  private static let userDirectories = parse(
    FolderNamesTable.userDirectoryNames, keys: FolderNamesTable.userDirectories)

  /// One dictionary per line of `table`, whose first cell is the language and whose others answer to `keys` in turn.
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
