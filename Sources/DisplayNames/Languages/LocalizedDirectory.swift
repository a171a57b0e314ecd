/// The localized names of directories.
///
/// There are two mechanisms, and both need a marker that was created on purpose: a folder that a user happens to call `Music`
/// keeps its name in every language.
public enum LocalizedDirectory {
  /// The entry that marks a directory as localized; also the extension of directories with their own tables.
  public static let marker: Name = ".localized"

  /// The localized name of a system folder that contains an entry `.localized`; nil when it keeps its real name.
  ///
  /// `volumeTable` is the volume's `SystemFolderLocalizations` table for the chosen language. `builtIn` looks a name up in the
  /// built-in table and is used for names that the volume's table does not translate.
  public static func nameOfMarked(
    _ name: Name, volumeTable: [String: String]?, builtIn: (Name) -> String?
  ) -> Name? {
    if let volumeTable, let text = name.text, let value = volumeTable[text],
      let localized = LocalizedName.sanitize(value, realName: name)
    {
      return localized
    }
    return builtIn(name).flatMap { LocalizedName.sanitize($0, realName: name) }
  }

  /// The length of `X` if `name` is `X.localized` and `X` is a usable name; otherwise nil.
  public static func stemLength(of name: Span<UInt8>) -> Int? {
    guard let stem = FileExtension.stemLength(of: name),
      name.extracting(stem..<name.count).equals(".localized")
    else { return nil }
    return stem
  }

  /// The name of a directory `X.localized` that contains a directory `.localized` of string tables: the value for `X` in
  /// `strings`, the chosen language's table, or else `X` ("File System Advanced Programming Topics", Localizing the Name of a
  /// Directory). Nil for other names. Must not be called for a directory without that inner directory, which keeps its name.
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
