/// A language with an optional script and region: `de`, `de-AT`, `zh-Hant-TW`.
public struct LanguageTag: Sendable, Hashable, CustomStringConvertible {
  /// Lower case, two to eight letters.
  public let language: String
  /// Four letters, the first one upper case.
  public let script: String?
  /// Two upper-case letters or three digits.
  public let region: String?

  init(language: String, script: String? = nil, region: String? = nil) {
    self.language = language
    self.script = script
    self.region = region
  }

  /// Parses a BCP 47 tag or a POSIX locale, with `-` or `_`: `pt-BR`, `zh_TW.UTF-8`, `sr_RS@latin`. `C` and `POSIX` are English.
  /// Chinese without a script gets that of its region, since the script decides which tables can be read. Nil for any other text.
  /// Variants and extensions are dropped.
  public init?(_ text: some StringProtocol) {
    guard text.utf8.count <= 64 else { return nil }
    let parts = text.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first else { return nil }
    let locale = first.prefix { $0 != "." }
    if locale == "C" || locale == "POSIX" {
      self.init(language: "en")
      return
    }
    var subtags = locale.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }[...]
    guard let language = subtags.popFirst(), (2...8).contains(language.utf8.count), language.isLetters else {
      return nil
    }
    guard subtags.allSatisfy({ (1...8).contains($0.utf8.count) && $0.isLettersAndDigits }) else { return nil }
    var script: String?
    var region: String?
    if let next = subtags.first, next.utf8.count == 4, next.isLetters {
      script = next.prefix(1).uppercased() + next.dropFirst().lowercased()
      subtags.removeFirst()
    } else if parts.count == 2 {
      script = ["latin": "Latn", "cyrillic": "Cyrl"][parts[1].lowercased()]
    }
    if let next = subtags.first,
      next.utf8.count == 2 && next.isLetters || next.utf8.count == 3 && next.allSatisfy(\.isWholeNumber)
    {
      region = next.uppercased()
    }
    let code = language.lowercased()
    if code == "zh", script == nil {
      script = ["TW", "HK", "MO"].contains(region) ? "Hant" : "Hans"
    }
    self.init(language: code, script: script, region: region)
  }

  public var description: String { [language, script, region].compactMap(\.self).joined(separator: "-") }
}

extension StringProtocol {
  fileprivate var isLetters: Bool { utf8.allSatisfy { (0x61...0x7a).contains(asciiLowercase($0)) } }
  fileprivate var isLettersAndDigits: Bool {
    utf8.allSatisfy { (0x61...0x7a).contains(asciiLowercase($0)) || (0x30...0x39).contains($0) }
  }
}
