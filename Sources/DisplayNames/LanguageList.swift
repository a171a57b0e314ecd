/// The languages somebody reads, most preferred first.
public enum LanguageList {
  /// More than anybody reads; bounds the work that an environment variable can cause.
  static let maximumCount = 32

  /// The value of `-o language=de-AT:de:en`.
  public static func parse(option value: String) throws(OptionError) -> [LanguageTag] {
    var tags: [LanguageTag] = []
    for text in value.split(separator: ":", omittingEmptySubsequences: false) {
      guard let tag = LanguageTag(text), tags.count < maximumCount else {
        throw OptionError(
          "language=\(value): \"\(text)\" is not a language; use tags such as de, de-AT or "
            + "zh-Hant, at most \(maximumCount), separated by colons")
      }
      if !tags.contains(tag) { tags.append(tag) }
    }
    return tags
  }

  /// The list a process with this environment would use: that of `LANGUAGE`, then the locale of the first of
  /// `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty. As in GNU gettext, `LANGUAGE` counts for
  /// nothing in the locales `C` and `POSIX`. What is no language is passed over.
  public static func parse(environment: (String) -> String?) -> [LanguageTag] {
    let locale =
      ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
    var tags: [LanguageTag] = []
    if locale != "C", locale != "POSIX", let languages = environment("LANGUAGE") {
      for text in languages.split(separator: ":").prefix(maximumCount) {
        if let tag = LanguageTag(text), !tags.contains(tag) { tags.append(tag) }
      }
    }
    if let tag = LanguageTag(locale), !tags.contains(tag) { tags.append(tag) }
    return tags
  }
}
