/// Chooses among the languages that have string tables, in the way of CFBundle.
public enum LanguageMatch {
  /// The element of `available` to use; nil when names stay as they are on disk.
  ///
  /// `available` are names of `.lproj` directories without the suffix, or keys of a `.loctable`, in either spelling (`pt-BR`,
  /// `pt_BR`) or as the old names (`German`). For each preferred language in turn, more specific tables are tried first: the
  /// exact tag, its script, its parent region (`es-MX` reads `es-419`, `en-NZ` reads `en-GB`), the language, its other codes
  /// (`nb` and `no`, `he` and `iw`). Then `developmentRegion` is tried, then English.
  ///
  /// Names on disk are in the development language, English unless stated. A user who prefers that language or English, when
  /// there is no table for it, gets the names on disk rather than the next preferred language.
  public static func best(
    preferred: [LanguageTag], available: [String], developmentRegion: String? = nil
  ) -> String? {
    let tables = Tables(available)
    let development = developmentRegion.flatMap(Self.tag(named:)) ?? LanguageTag(language: "en")
    if let found = bestPreferred(for: preferred, in: tables, stoppingAt: development) { return found.table }
    if preferred.contains(where: { $0.language == "en" || $0.language == development.language }) {
      return nil
    }
    return tables.first(of: fallbacks(of: development)) ?? tables.first(of: [LanguageTag(language: "en")])
  }

  /// Like `best`, but chooses only among the preferred languages. Also returns the index in `preferred` of the language found.
  public static func bestPreferred(for preferred: [LanguageTag], available: [String]) -> (
    rank: Int, table: String
  )? {
    bestPreferred(for: preferred, in: Tables(available), stoppingAt: LanguageTag(language: "en"))
  }

  private static func bestPreferred(
    for preferred: [LanguageTag], in tables: Tables, stoppingAt development: LanguageTag
  ) -> (rank: Int, table: String)? {
    for (rank, tag) in preferred.enumerated() {
      if let found = tables.first(of: fallbacks(of: tag)) { return (rank, found) }
      if tag.language == "en" || tag.language == development.language { return nil }
    }
    return nil
  }

  /// The tags of the tables that a user of `tag` can read, best first.
  static func fallbacks(of tag: LanguageTag) -> [LanguageTag] {
    var result = ladder(tag)
    for alias in aliases(of: tag) { result += ladder(alias) }
    return result
  }

  private static func ladder(_ tag: LanguageTag) -> [LanguageTag] {
    if tag.language == "zh" { return chinese(tag) }
    let language = tag.language
    var result = [tag]
    let usualScript = scripts[language]
    if let script = tag.script {
      result.append(LanguageTag(language: language, script: script))
      // A reader of Serbian in Latin script cannot use the Cyrillic table, for which plain `sr` stands.
      if let usualScript, usualScript != script { return result }
      result.append(LanguageTag(language: language, region: tag.region))
    } else if let usualScript {
      result.append(LanguageTag(language: language, script: usualScript, region: tag.region))
      result.append(LanguageTag(language: language, script: usualScript))
    }
    if let parent = parentRegion(of: tag) { result.append(LanguageTag(language: language, region: parent)) }
    result.append(LanguageTag(language: language))
    return result
  }

  /// Chinese tables differ by script. Older ones have a region in its place.
  private static func chinese(_ tag: LanguageTag) -> [LanguageTag] {
    let script = tag.script ?? "Hans"
    func table(_ region: String) -> LanguageTag {
      LanguageTag(language: "zh", script: script, region: region)
    }
    let plain = LanguageTag(language: "zh", script: script)
    guard script == "Hant" else { return [tag, plain, table("CN")] }
    return switch tag.region {
    case "HK", "MO": [tag, table("HK"), table("TW"), plain]
    default: [tag, plain, table("TW")]
    }
  }

  /// The region whose usage a tag's region follows (CLDR, parentLocales).
  private static func parentRegion(of tag: LanguageTag) -> String? {
    switch (tag.language, tag.region) {
    case ("es", let region?): americanSpanish.contains(region) ? "419" : nil
    case ("en", nil): "US"
    case ("en", let region?): americanEnglish.contains(region) ? "US" : "GB"
    case ("pt", nil), ("pt", "BR"): "BR"
    case ("pt", _): "PT"
    default: nil
    }
  }

  private static func aliases(of tag: LanguageTag) -> [LanguageTag] {
    if tag.language == "sh" { return [LanguageTag(language: "sr", script: "Latn", region: tag.region)] }
    if tag.language == "sr", tag.script == "Latn" { return [LanguageTag(language: "sh", region: tag.region)] }
    guard let other = codes[tag.language] else { return [] }
    return [LanguageTag(language: other, script: tag.script, region: tag.region)]
  }

  /// The tag for a table's name, which may be an old name.
  static func tag(named name: String) -> LanguageTag? {
    legacyNames[name.lowercased()].flatMap { LanguageTag($0) } ?? LanguageTag(name)
  }

  private static let codes = [
    "nb": "no", "no": "nb", "he": "iw", "iw": "he", "id": "in", "in": "id", "fil": "tl", "tl": "fil",
    "yi": "ji", "ji": "yi",
  ]

  /// The default script of languages that are written in more than one.
  private static let scripts = [
    "sr": "Cyrl", "uz": "Latn", "az": "Latn", "bs": "Latn", "pa": "Guru", "kk": "Cyrl", "mn": "Cyrl",
  ]

  private static let americanSpanish: Set<String> = [
    "419", "AR", "BO", "BR", "BZ", "CL", "CO", "CR", "CU", "DO", "EC", "GT", "HN", "MX", "NI", "PA", "PE",
    "PR",
    "PY", "SV", "US", "UY", "VE",
  ]

  private static let americanEnglish: Set<String> = [
    "US", "AS", "BI", "GU", "MH", "MP", "PH", "PR", "UM", "VI",
  ]

  /// The names of `.lproj` directories before language codes were used (CFBundle).
  static let legacyNames = [
    "english": "en", "french": "fr", "german": "de", "italian": "it", "dutch": "nl", "spanish": "es",
    "japanese": "ja", "swedish": "sv", "danish": "da", "portuguese": "pt", "norwegian": "nb", "hebrew": "he",
    "arabic": "ar", "finnish": "fi", "greek": "el", "icelandic": "is", "turkish": "tr", "croatian": "hr",
    "chinese": "zh", "hindi": "hi", "thai": "th", "korean": "ko", "polish": "pl", "hungarian": "hu",
    "russian": "ru", "romanian": "ro", "czech": "cs", "slovak": "sk", "ukrainian": "uk", "vietnamese": "vi",
    "indonesian": "id", "malay": "ms", "catalan": "ca",
  ]

  /// The available tables by tag. A language code takes precedence over an old name. Of two spellings of one tag, the first in
  /// byte order is used, so that the order of the directory does not matter.
  private struct Tables {
    private var names: [LanguageTag: String] = [:]
    private var legacy: [LanguageTag: String] = [:]

    init(_ available: [String]) {
      for name in available.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
        if let code = legacyNames[name.lowercased()] {
          if let tag = LanguageTag(code), legacy[tag] == nil { legacy[tag] = name }
        } else if let tag = LanguageTag(name), names[tag] == nil {
          names[tag] = name
        }
      }
    }

    func first(of tags: [LanguageTag]) -> String? {
      for tag in tags { if let name = names[tag] { return name } }
      for tag in tags { if let name = legacy[tag] { return name } }
      return nil
    }
  }
}
