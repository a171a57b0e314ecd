import DisplayNames
import View

/// Output as JSON (RFC 8259). A name that is not UTF-8 is written as text with replacement characters and, in a field `...Bytes`,
/// in hexadecimal.
enum JSON {
  /// - Parameter comparison: how the name that was given led to the entry.
  static func object(
    _ explanation: Explanation, _ details: EntryDetails, _ comparison: NameMatching? = nil
  ) -> String {
    let purpose = details.purpose.map { [(key: "purpose", value: Array($0.utf8))] } ?? []
    let names = object(
      [
        ("displayName", explanation.displayName.bytes), ("realName", explanation.realName.bytes),
        ("realPath", explanation.realPathBytes), ("kind", Array(explanation.kind.word.utf8)),
        ("reason", Array(explanation.reason.utf8)), ("type", Array(details.contentType.identifier.utf8)),
        ("mimeType", Array(details.contentType.mimeType.utf8)),
      ] + purpose)
    let matching = comparison.map { ", \"matching\": \"\($0)\"" } ?? ""
    return names.dropLast()
      + ", \"hidden\": \(explanation.isHidden), \"backup\": \(details.isBackedUp)\(matching)}"
  }

  static func object(_ fields: [(key: String, value: [UInt8])]) -> String {
    let pairs = fields.flatMap { key, value -> [String] in
      if let text = String(validating: value, as: UTF8.self) { return ["\(string(key)): \(string(text))"] }
      let hex = value.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
      return ["\(string(key)): \(string(Text.lossy(value)))", "\(string(key + "Bytes")): \(string(hex))"]
    }
    return "{" + pairs.joined(separator: ", ") + "}"
  }

  /// An array with one object on each line.
  static func array(_ objects: [String]) -> String { "[" + objects.joined(separator: ",\n ") + "]" }

  private static func string(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": out += "\\\""
      case "\\": out += "\\\\"
      case _ where scalar.value < 0x20:
        let digits = String(scalar.value, radix: 16)
        out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "\""
  }
}
