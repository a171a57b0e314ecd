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
      let line = line.trimmed
      if line.first == "[" {
        isInGroup = line == "[Desktop Entry]"
        if isInGroup, names == nil { names = [:] }
      } else if isInGroup, let equals = line.firstIndex(of: "=") {
        guard let locale = locale(of: line[..<equals].trimmed) else { continue }
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

  private static func unescaped(_ value: Substring) -> String {
    var out = ""
    var isEscaped = false
    for character in value {
      if isEscaped {
        out.append(["s": " ", "n": "\n", "t": "\t", "r": "\r"][character] ?? character)
        isEscaped = false
      } else if character == "\\" {
        isEscaped = true
      } else {
        out.append(character)
      }
    }
    return out
  }
}

extension Substring {
  fileprivate var trimmed: Substring {
    var text = drop(while: \.isWhitespace)
    while text.last?.isWhitespace ?? false { text.removeLast() }
    return text
  }
}
