/// A `.loctable` file: the string tables of all languages in one property list, used by macOS since 10.15.
public enum LocalizationTable {
  /// Language code (written with `_`: `pt_PT`) to keys and values; nil when the bytes are not such a table.
  ///
  /// `LocProvenance`, which records the origin of translations, and values that are not dictionaries are left out.
  public static func parse(_ bytes: [UInt8]) -> [String: [String: String]]? {
    guard case .dictionary(let languages)? = PropertyListValue.parse(bytes) else { return nil }
    var tables: [String: [String: String]] = [:]
    for (language, table) in languages where language != "LocProvenance" {
      guard case .dictionary(let members) = table else { continue }
      tables[language] = members.compactMapValues(\.text)
    }
    return tables
  }
}
