/// A user's languages, most preferred first.
public enum LanguageList {
  /// The maximum number of languages. Bounds the work that an environment variable can cause.
  static let maximumCount = 32

  /// Parses the value of `-o language=de-AT:de:en`.
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

  /// The languages of a process with this environment: those of `LANGUAGE`, then the locale of the first of `LC_ALL`,
  /// `LC_MESSAGES` and `LANG` that is set and not empty. As in GNU gettext, `LANGUAGE` is ignored in the locales `C` and `POSIX`.
  /// Invalid tags are skipped.
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
