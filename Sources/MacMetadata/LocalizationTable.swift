/// A `.loctable` file: the string tables of all languages in one property list, as macOS keeps them since 10.15.
public enum LocalizationTable {
  /// Language code (written with `_`: `pt_PT`) to keys and values; nil when the bytes are no such table.
  ///
  /// `LocProvenance`, which tells where translations came from, and whatever is no dictionary are left out.
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
