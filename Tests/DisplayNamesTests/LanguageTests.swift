import Testing

@testable import DisplayNames

private func best(_ preferred: String, _ available: [String], _ development: String? = nil) -> String? {
  let tags = preferred.split(separator: ":").compactMap { LanguageTag($0) }
  return LanguageMatch.best(preferred: tags, available: available, developmentRegion: development)
}

@Suite struct LanguageListTests {
  @Test(arguments: [
    ("de", "de"), ("de-AT", "de-AT"), ("de_AT.UTF-8", "de-AT"), ("DE_at", "de-AT"), ("zh_CN", "zh-Hans-CN"),
    ("zh_TW.Big5", "zh-Hant-TW"), ("zh_HK", "zh-Hant-HK"), ("zh", "zh-Hans"), ("zh-hant", "zh-Hant"),
    ("sr_RS@latin", "sr-Latn-RS"), ("sr@cyrillic", "sr-Cyrl"), ("de_DE@euro", "de-DE"), ("es-419", "es-419"),
    ("C", "en"), ("POSIX", "en"), ("C.UTF-8", "en"), ("en-US-POSIX", "en-US"), ("sl-rozaj", "sl"),
  ])
  func languageTag_inLocaleOrBCP47Spelling_isParsed(text: String, expected: String) {
    #expect(LanguageTag(text)?.description == expected)
  }

  @Test(arguments: [
    "", "d", "-", "de-", "de--AT", "d3", "../../x", "de AT", "verylonglanguage", "日本", "de/AT",
  ])
  func languageTag_ofOtherText_isNil(text: String) {
    #expect(LanguageTag(text) == nil)
  }

  @Test func languageOption_isParsedOrNamesItsMistake() throws {
    #expect(try LanguageList.parse(option: "de-AT:de:en:de").map(\.description) == ["de-AT", "de", "en"])
    let error = #expect(throws: OptionError.self) { try LanguageList.parse(option: "de:§") }
    #expect(error?.description.contains("\"§\"") == true)
    #expect(throws: OptionError.self) { try LanguageList.parse(option: "") }
    let many = (0..<200).map { "a\(UnicodeScalar(97 + $0 % 26)!)\(UnicodeScalar(97 + $0 / 26)!)" }
    #expect(throws: OptionError.self) { try LanguageList.parse(option: many.joined(separator: ":")) }
  }

  @Test(arguments: [
    (["LANG": "de_DE.UTF-8"], ["de-DE"]),
    (["LANG": "de_DE.UTF-8", "LC_MESSAGES": "fr_FR"], ["fr-FR"]),
    (["LANG": "de_DE.UTF-8", "LC_MESSAGES": "fr_FR", "LC_ALL": "ja_JP"], ["ja-JP"]),
    (["LANG": "de_DE.UTF-8", "LC_ALL": ""], ["de-DE"]),
    (["LANG": "de_AT.UTF-8", "LANGUAGE": "it:de_AT:fr"], ["it", "de-AT", "fr"]),
    (["LANG": "de_AT.UTF-8", "LANGUAGE": "it"], ["it", "de-AT"]),
    (["LANG": "C", "LANGUAGE": "it"], ["en"]),
    (["LANG": "de_DE", "LC_ALL": "POSIX", "LANGUAGE": "it"], ["en"]),
    (["LANG": "C.UTF-8"], ["en"]),
    (["LANG": "de_DE", "LANGUAGE": "::§:fr:"], ["fr", "de-DE"]),
    ([:], ["en"]),
  ])
  func languagesOfEnvironment_areThoseOfGettext(environment: [String: String], expected: [String]) {
    #expect(LanguageList.parse { environment[$0] }.map(\.description) == expected)
  }
}

@Suite struct LanguageMatchTests {
  @Test(arguments: [
    ("de-AT", ["en", "de", "de_AT"], "de_AT"), ("de-AT", ["de-at", "de"], "de-at"),
    ("de-AT", ["en", "de"], "de"),
    ("zh_CN", ["zh_TW", "zh_CN"], "zh_CN"), ("zh-Hans-CN", ["zh-Hant", "zh-Hans"], "zh-Hans"),
    ("zh", ["zh_TW", "zh_CN"], "zh_CN"), ("zh-Hans", ["zh"], "zh"), ("zh-SG", ["zh_CN", "zh_TW"], "zh_CN"),
    ("zh-Hant-TW", ["zh_CN", "zh_TW"], "zh_TW"), ("zh_TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
    ("zh-HK", ["zh_TW", "zh_HK"], "zh_HK"), ("zh-Hant-HK", ["zh_TW", "zh-Hant"], "zh_TW"),
    ("zh-MO", ["zh_TW", "zh_HK"], "zh_HK"), ("zh-MO", ["zh-Hant"], "zh-Hant"),
    ("es-MX", ["es", "es_419"], "es_419"), ("es-ES", ["es", "es_419"], "es"), ("es-AR", ["es"], "es"),
    ("en-NZ", ["en", "en_GB"], "en_GB"), ("en-IN", ["en", "en_GB"], "en_GB"),
    ("en-IE", ["en-GB", "en"], "en-GB"),
    ("en-AU", ["en", "en_GB", "en_AU"], "en_AU"), ("en-AU", ["en", "en_GB"], "en_GB"),
    ("en-US", ["en", "en_GB"], "en"), ("en", ["en_GB", "en_US"], "en_US"),
    ("pt-AO", ["pt", "pt_PT"], "pt_PT"), ("pt-BR", ["pt_PT", "pt_BR"], "pt_BR"),
    ("pt", ["pt_PT", "pt_BR"], "pt_BR"),
    ("pt-BR", ["pt_PT", "pt"], "pt"), ("pt", ["pt_PT", "pt"], "pt"),
    ("nb", ["no", "da"], "no"), ("no", ["nb", "nn"], "nb"), ("nb-NO", ["no", "nb"], "nb"),
    ("he", ["iw"], "iw"),
    ("iw", ["he"], "he"), ("id-ID", ["in"], "in"), ("fil", ["tl"], "tl"), ("yi", ["ji"], "ji"),
    ("sr-Latn", ["sr", "sh"], "sh"), ("sh", ["sr", "sr-Latn"], "sr-Latn"),
    ("sr", ["sr-Cyrl", "sr-Latn"], "sr-Cyrl"),
    ("sr-Cyrl-RS", ["sr"], "sr"),
    ("de", ["English", "German"], "German"), ("de", ["German", "de"], "de"), ("de-AT", ["German"], "German"),
    ("ja", ["Japanese", "en"], "Japanese"), ("zh-Hans", ["Chinese"], "Chinese"),
    ("fr:de", ["de", "en"], "de"), ("fr:de", ["de", "fr"], "fr"),
    ("fr", ["de", "en"], "en"), ("fr", ["English", "de"], "English"), ("sv", ["da", "en"], "en"),
  ])
  func bestMatch_isClosestTable(preferred: String, available: [String], expected: String) {
    #expect(best(preferred, available) == expected)
    #expect(best(preferred, available.reversed()) == expected)
  }

  @Test(arguments: [
    ("sv", ["da"]), ("sv", ["nb", "no"]), ("nn", ["nb", "no"]), ("zh-Hant", ["zh_CN"]), ("zh_TW", ["zh"]),
    ("zh_CN", ["zh_TW"]), ("sr-Latn", ["sr"]), ("de", ["de-AT"]), ("de", []), ("pt-BR", ["pt_PT"]),
  ])
  func bestMatch_withoutListedFallback_isNil(preferred: String, available: [String]) {
    #expect(best(preferred, available) == nil)
  }

  @Test(arguments: ["en", "en-US", "en-GB", "C.UTF-8", "en:de", "en-AU:fr"])
  func bestMatch_forEnglishWithoutEnglishTable_isNil(preferred: String) {
    #expect(best(preferred, ["de", "fr", "zh_CN"]) == nil)
    #expect(best(preferred, ["de", "fr"], "English") == nil)
    #expect(best(preferred, ["de", "fr"], "de") == nil)
  }

  @Test func bestMatch_prefersDevelopmentRegionToEnglish() {
    #expect(best("fr", ["de", "en"], "de") == "de")
    #expect(best("fr", ["de", "en"], "German") == "de")
    #expect(best("fr", ["German", "en"], "de") == "German")
    #expect(best("fr", ["en"], "de") == "en")
    #expect(best("fr", ["ja"], "de") == nil)
  }

  @Test func bestMatch_forDevelopmentLanguageWithoutTable_isNil() {
    #expect(best("ja:fr", ["fr", "en"], "Japanese") == nil)
  }

  @Test func bestMatch_isIndependentOfTableOrder() {
    #expect(best("pt-BR", ["pt_BR", "pt-BR"]) == best("pt-BR", ["pt-BR", "pt_BR"]))
  }

  @Test func bestMatch_withoutPreference_isNil() {
    #expect(LanguageMatch.best(preferred: [], available: ["de"]) == nil)
  }

  @Test func bestMatch_ignoresInvalidTableNames() {
    #expect(best("de", ["", "..", "Base", "LocProvenance", "de"]) == "de")
  }

  @Test(arguments: [
    ("de", "de"), ("zh-Hans-CN", "zh_CN"), ("zh-HK", "zh_HK"), ("nb", "no"), ("pt-BR", "pt"),
    ("pt-PT", "pt_PT"),
    ("es-MX", "es_419"), ("fr-CA", "fr_CA"), ("fr-BE", "fr"), ("en-NZ", "en_GB"), ("en-US", "en"),
    ("eo", "en"),
  ])
  func bestMatch_amongSystemFolderTables_isFound(preferred: String, expected: String) {
    let tables = """
      ar ca cs da de el en en_AU en_GB es es_419 fi fr fr_CA he hi hr hu id it ja ko ms nl no pl pt pt_PT ro ru sk \
      sv th tr uk vi zh_CN zh_HK zh_TW
      """
    #expect(best(preferred, tables.split(separator: " ").map(String.init)) == expected)
  }
}
