/// The names in a `.desktop` file, or in the `.directory` file of a directory ("Desktop Entry Specification", Localized values
/// for keys).
public enum DesktopEntry {
  /// The values of `Name` by locale in gettext's spelling; the empty locale is the default. Nil when the bytes are not a desktop
  /// entry.
  public static func names(_ bytes: [UInt8]) -> [String: String]? {
    guard bytes.count <= ParserLimits.inputBytes, let text = String(validating: bytes, as: UTF8.self) else {
      return nil
    }
    var names: [String: String]?
    var isInGroup = false
    for line in text.split(whereSeparator: \.isNewline) {
      // By scalars: a name may begin with a combining mark, which makes another character of itself and the sign before it.
      let line = line.unicodeScalars.trimmed
      if line.first == "[" {
        isInGroup = String(line) == "[Desktop Entry]"
        if isInGroup, names == nil { names = [:] }
      } else if isInGroup, let equals = line.firstIndex(of: "=") {
        guard let locale = locale(of: Substring(line[..<equals].trimmed)) else { continue }
        names?[locale] = unescaped(line[line.index(after: equals)...].trimmed)
      }
    }
    return names
  }

  /// The locale of the key `Name` or `Name[locale]`; nil for other keys.
  private static func locale(of key: Substring) -> String? {
    if key == "Name" { return "" }
    guard key.hasPrefix("Name["), key.hasSuffix("]") else { return nil }
    return String(key.dropFirst(5).dropLast())
  }

  private static func unescaped(_ value: Substring.UnicodeScalarView) -> String {
    var out = String.UnicodeScalarView()
    var isEscaped = false
    for scalar in value {
      if isEscaped {
        out.append(["s": " ", "n": "\n", "t": "\t", "r": "\r"][scalar] ?? scalar)
        isEscaped = false
      } else if scalar == "\\" {
        isEscaped = true
      } else {
        out.append(scalar)
      }
    }
    return String(out)
  }
}

extension Substring.UnicodeScalarView {
  fileprivate var trimmed: Substring.UnicodeScalarView {
    var text = drop(while: \.properties.isWhitespace)
    while text.last?.properties.isWhitespace ?? false { text.removeLast() }
    return text
  }
}
