/// The localized names of directories.
///
/// There are two mechanisms, and both need a mark that somebody put there on purpose: a folder that a user
/// happens to call `Music` keeps its name in every language.
public enum LocalizedDirectory {
  /// The entry whose presence marks a directory, and the extension of directories with tables of their own.
  public static let marker: Name = ".localized"

  /// The name of a system folder that holds an entry `.localized`, or nil when it keeps its real name.
  ///
  /// `volumeTable` is the `SystemFolderLocalizations` table of the volume for the chosen language, `builtIn` looks
  /// a name up in the built-in one, which serves what the volume's own does not translate.
  public static func nameOfMarked(
    _ name: Name, volumeTable: [String: String]?, builtIn: (Name) -> String?
  ) -> Name? {
    if let text = name.text, let value = volumeTable?[text],
      let localized = LocalizedName.sanitize(value, realName: name)
    {
      return localized
    }
    return builtIn(name).flatMap { LocalizedName.sanitize($0, realName: name) }
  }

  /// The length of `X` if `name` is `X.localized` and `X` is a usable name.
  public static func stemLength(of name: Span<UInt8>) -> Int? {
    guard let stem = FileExtension.stemLength(of: name),
      name.extracting(stem..<name.count).equals(".localized")
    else { return nil }
    return stem
  }

  /// The name of a directory `X.localized` that holds a directory `.localized` of string tables: what
  /// `strings`, the chosen language's, says about `X`, or `X` ("File System Advanced Programming Topics",
  /// Localizing the Name of a Directory). Nil for other names; a directory without that inner directory keeps
  /// its name and must not be asked about.
  public static func nameOfSelfLocalized(_ name: Name, strings: [String: String]) -> Name? {
    guard let length = stemLength(of: name.bytes.span) else { return nil }
    let stem = Name(name.bytes.prefix(length))
    if let text = stem.text, let value = strings[text],
      let localized = LocalizedName.sanitize(value, realName: name)
    {
      return localized
    }
    return stem
  }
}
