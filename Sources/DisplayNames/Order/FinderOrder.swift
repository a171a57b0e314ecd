import Glibc

/// The order in which the Finder lists names: a number in a name counts by its value, and letters are compared as the language
/// collates them, whatever their accents and case. Accents decide between names that are equal otherwise, then case (small letters
/// first), then the bytes.
///
/// The language is that of a locale of the C library. Without one (`C`, or one that this machine does not have) letters are
/// compared by Unicode: a letter with a mark is beside the letter without.
public struct FinderOrder: Sendable {
  private let locale: CollationLocale?

  /// - Parameter locale: the name of a locale, as in `LC_COLLATE`; nil for none.
  public init(locale: String?) { self.locale = locale.flatMap { CollationLocale($0) } }

  /// The order of the locale that the environment of this process requests for collation. (`LC_ALL`, `LC_COLLATE`, `LANG`)
  public static var fromEnvironment: FinderOrder {
    let values = ["LC_ALL", "LC_COLLATE", "LANG"].lazy.compactMap { (name: String) in
      getenv(name).map { String(cString: $0) }
    }
    return FinderOrder(locale: values.first { !$0.isEmpty })
  }

  /// The elements in the order of their names.
  public func sorted<Element>(_ elements: [Element], by name: (Element) -> Name) -> [Element] {
    elements.map { (key: key(of: name($0)), element: $0) }.sorted { $0.key < $1.key }.map(\.element)
  }

  private struct Key: Comparable {
    let collation: [UInt8]
    let name: Name

    static func < (a: Key, b: Key) -> Bool {
      if a.collation == b.collation { return a.name < b.name }
      return a.collation.lexicographicallyPrecedes(b.collation)
    }
  }

  private func key(of name: Name) -> Key {
    let bytes = Self.sortableNumbers(Array(name.bytes))
    return Key(collation: locale?.key(of: bytes) ?? Self.unicodeKey(of: bytes), name: name)
  }

  /// The name with each number written so that the order of its digits is the order of the values: without leading zeros, and
  /// after the count of the digits that are left.
  static func sortableNumbers(_ bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var rest = bytes[...]
    while let first = rest.first {
      let digits = rest.prefix { isDigit($0) }
      rest = rest.dropFirst(max(digits.count, 1))
      if digits.isEmpty {
        result.append(first)
        continue
      }
      let significant = digits.drop { $0 == 0x30 }
      // A name has at most 255 bytes.
      let count = String(significant.count)
      result += Array(String(repeating: "0", count: max(0, 3 - count.count)).utf8) + Array(count.utf8)
      result += significant
    }
    return result
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

  /// Three levels, each ended by a zero byte: the letters without marks and case, the marks, the case.
  private static func unicodeKey(of bytes: [UInt8]) -> [UInt8] {
    let folded = NameMatching.caseless.sharedForm(of: Name(bytes))
    let letters = NormalForm.withoutMarks(folded.bytes.span)
    let cases = String(decoding: Name(bytes).composed.bytes, as: UTF8.self).unicodeScalars.map {
      (scalar) -> UInt8 in
      scalar.properties.isUppercase ? 2 : 1
    }
    return letters + [0] + folded.bytes + [0] + cases
  }
}

/// A locale of the C library that collates text in UTF-8. (newlocale(3))
private final class CollationLocale: @unchecked Sendable {
  private let locale: locale_t

  /// - Returns: nil where the C library has no such locale, and for one without rules of collation.
  init?(_ name: String) {
    guard name != "POSIX", name.split(separator: ".").first != "C",
      let locale = newlocale(CInt(LC_COLLATE_MASK | LC_CTYPE_MASK), name, nil)
    else { return nil }
    guard strcmp(nl_langinfo_l(nl_item(CODESET), locale), "UTF-8") == 0 else {
      freelocale(locale)
      return nil
    }
    self.locale = locale
  }

  deinit { freelocale(locale) }

  /// The sort key of a name: keys in the order of their bytes are names in the order of the locale. (strxfrm(3))
  func key(of bytes: [UInt8]) -> [UInt8] {
    let text = String(decoding: bytes, as: UTF8.self)
    let length = strxfrm_l(nil, text, 0, locale)
    return [UInt8](unsafeUninitializedCapacity: length + 1) { buffer, count in
      _ = buffer.withMemoryRebound(to: CChar.self) { strxfrm_l($0.baseAddress!, text, length + 1, locale) }
      count = length
    }
  }
}
