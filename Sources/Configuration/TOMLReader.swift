/// Reads TOML 1.0 ("TOML: Tom's Obvious Minimal Language", v1.0.0), and keeps the position of each key and value.
struct TOMLReader {
  private let bytes: [UInt8]
  private var at = 0
  private let root = TOMLTable(.header, offset: 0)

  /// The maximum nesting of arrays and inline tables. No real configuration nests deeper.
  private static let deepest = 32

  /// - Throws: the first problem.
  static func read(_ bytes: [UInt8]) throws(TOMLError) -> TOMLTable {
    if let offset = firstInvalid(in: bytes) {
      throw TOMLError(offset: offset, message: "this is not UTF-8 text")
    }
    var reader = TOMLReader(bytes)
    try reader.document()
    return reader.root
  }

  private init(_ bytes: [UInt8]) {
    self.bytes = bytes
    if bytes.starts(with: [0xef, 0xbb, 0xbf]) { at = 3 }
  }

  private static func firstInvalid(in bytes: [UInt8]) -> Int? {
    do throws(UTF8.ValidationError) {
      _ = try UTF8Span(validating: bytes.span)
      return nil
    } catch { return error.byteOffsets.lowerBound }
  }

  // MARK: Lines

  private mutating func document() throws(TOMLError) {
    var table = root
    while true {
      skipBlanksAndLines()
      guard let byte = peek else { return }
      if byte == "[" {
        table = try header()
      } else {
        try keyAndValue(into: table)
      }
      try endOfLine()
    }
  }

  /// `[a.b]` or `[[a.b]]`.
  private mutating func header() throws(TOMLError) -> TOMLTable {
    let start = at
    at += 1
    let isArray = take("[")
    let keys = try keyPath()
    guard take("]"), !isArray || take("]") else {
      throw error("the name of a table ends in \(isArray ? "]]" : "]")")
    }
    var table = root
    for key in keys.dropLast() { table = try descend(into: table, key) }
    let last = keys[keys.count - 1]
    let new = TOMLTable(.header, offset: start)
    if isArray {
      switch table[last.text]?.content {
      case nil: table.set(last.text, at: last.offset, to: TOMLValue(content: .tables([new]), offset: start))
      case .tables(let tables):
        table.set(last.text, at: last.offset, to: TOMLValue(content: .tables(tables + [new]), offset: start))
      default: throw TOMLError(offset: last.offset, message: "\(last.text) is already defined as something else above")
      }
      return new
    }
    switch table[last.text]?.content {
    case nil: table.set(last.text, at: last.offset, to: TOMLValue(content: .table(new), offset: start))
    case .table(let existing) where existing.definition == .implicit:
      existing.definition = .header
      return existing
    case .table:
      throw TOMLError(offset: last.offset, message: "the table \(last.text) is already defined above")
    default: throw TOMLError(offset: last.offset, message: "\(last.text) is already defined as something else above")
    }
    return new
  }

  /// The table that a part of a header's path leads to.
  private func descend(into table: TOMLTable, _ key: Key) throws(TOMLError) -> TOMLTable {
    switch table[key.text]?.content {
    case nil:
      let new = TOMLTable(.implicit, offset: key.offset)
      table.set(key.text, at: key.offset, to: TOMLValue(content: .table(new), offset: key.offset))
      return new
    case .table(let existing) where existing.definition != .inline: return existing
    case .tables(let tables): return tables[tables.count - 1]
    default: throw TOMLError(offset: key.offset, message: "\(key.text) is no table that can be added to")
    }
  }

  private mutating func keyAndValue(into start: TOMLTable, depth: Int = 0) throws(TOMLError) {
    let keys = try keyPath()
    guard take("=") else { throw error("an = is missing after the name \(keys[keys.count - 1].text)") }
    skipBlanks()
    var table = start
    for key in keys.dropLast() {
      switch table[key.text]?.content {
      case nil:
        let new = TOMLTable(.dotted, offset: key.offset)
        table.set(key.text, at: key.offset, to: TOMLValue(content: .table(new), offset: key.offset))
        table = new
      case .table(let existing) where existing.definition == .dotted: table = existing
      default: throw TOMLError(offset: key.offset, message: "\(key.text) is already defined as something else above")
      }
    }
    let last = keys[keys.count - 1]
    guard table[last.text] == nil else {
      throw TOMLError(offset: last.offset, message: "\(last.text) is already defined above")
    }
    table.set(last.text, at: last.offset, to: try value(depth: depth))
  }

  private mutating func endOfLine() throws(TOMLError) {
    skipBlanks()
    if peek == "#" { skipComment() }
    guard peek == nil || takeLineBreak() else { throw error("nothing more can stand on this line") }
  }

  // MARK: Keys

  private struct Key {
    let text: String
    let offset: Int
  }

  /// Names separated by periods. Blanks around them are skipped.
  private mutating func keyPath() throws(TOMLError) -> [Key] {
    var keys: [Key] = []
    repeat {
      skipBlanks()
      let start = at
      if peek == "\"" || peek == "'" {
        keys.append(Key(text: try string(), offset: start))
      } else {
        while let byte = peek, byte.isLetterOrDigit || byte == "_" || byte == "-" { at += 1 }
        guard at > start else { throw error("a name is expected here") }
        keys.append(Key(text: text(from: start), offset: start))
      }
      skipBlanks()
      guard keys.count <= Self.deepest else { throw error("this name has too many parts") }
    } while take(".")
    return keys
  }

  // MARK: Values

  private mutating func value(depth: Int) throws(TOMLError) -> TOMLValue {
    guard depth <= Self.deepest else { throw error("this is nested too deeply") }
    let start = at
    let content: TOMLValue.Content
    switch peek {
    case "\"", "'": content = .string(try string())
    case "[": content = .array(try array(depth: depth))
    case "{": content = .table(try inlineTable(depth: depth))
    default: content = try word()
    }
    return TOMLValue(content: content, offset: start)
  }

  private mutating func array(depth: Int) throws(TOMLError) -> [TOMLValue] {
    at += 1
    var values: [TOMLValue] = []
    while true {
      skipBlanksAndLines()
      if take("]") { return values }
      values.append(try value(depth: depth + 1))
      skipBlanksAndLines()
      guard peek != nil else { throw error("the array is not closed: a ] is missing") }
      guard take(",") || peek == "]" else {
        throw error("values of an array are separated by commas and end in ]")
      }
    }
  }

  private mutating func inlineTable(depth: Int) throws(TOMLError) -> TOMLTable {
    let table = TOMLTable(.inline, offset: at)
    at += 1
    skipBlanks()
    if take("}") { return table }
    while true {
      try keyAndValue(into: table, depth: depth + 1)
      skipBlanks()
      if take("}") { return table }
      guard take(",") else {
        throw error("values in braces are separated by commas and end in } on the same line")
      }
    }
  }

  /// A number, a date, `true` or `false`.
  private mutating func word() throws(TOMLError) -> TOMLValue.Content {
    let start = at
    while let byte = peek, byte.isLetterOrDigit || "+-_.:".utf8.contains(byte) { at += 1 }
    // One blank may separate a date from its time.
    if at - start == 10, peek == " ", TOMLScalar.isDate(bytes[start..<at]), at + 1 < bytes.count,
      bytes[at + 1].isDigit
    {
      at += 1
      while let byte = peek, byte.isDigit || "+-.:Zz".utf8.contains(byte) { at += 1 }
    }
    guard at > start else { throw TOMLError(offset: start, message: "a value is expected here") }
    let word = text(from: start)
    guard let content = TOMLScalar.parse(word) else {
      throw TOMLError(
        offset: start, message: "\(word) is no value: text stands in quotation marks, as in \"\(word)\"")
    }
    return content
  }

  // MARK: Strings

  private mutating func string() throws(TOMLError) -> String {
    let start = at
    let quote = bytes[at]
    let isRaw = quote == "'"
    at += 1
    var isLong = false
    if peek == quote {
      at += 1
      guard peek == quote else { return "" }
      at += 1
      isLong = true
      _ = takeLineBreak()
    }
    var out: [UInt8] = []
    scan: while let byte = peek {
      if byte == quote {
        if !isLong {
          at += 1
          return String(decoding: out, as: UTF8.self)
        }
        var count = 0
        while peek == quote, count < 5 {
          at += 1
          count += 1
        }
        // Up to two quotation marks before the closing three belong to the text.
        if count >= 3 {
          return String(decoding: out + Array(repeating: quote, count: count - 3), as: UTF8.self)
        }
        out += Array(repeating: quote, count: count)
      } else if byte == "\\", !isRaw {
        try escape(into: &out, isLong: isLong)
      } else if isLong, takeLineBreak() {
        out.append(0x0a)
      } else if byte < 0x20 && byte != 0x09 || byte == 0x7f {
        if byte == 0x0a || byte == 0x0d { break scan }
        throw error("control characters in a string are written as \\uXXXX")
      } else {
        out.append(byte)
        at += 1
      }
    }
    throw TOMLError(
      offset: start,
      message:
        "this string is not closed: \(isLong ? "three quotation marks are" : "a quotation mark is") missing")
  }

  private mutating func escape(into out: inout [UInt8], isLong: Bool) throws(TOMLError) {
    let start = at
    at += 1
    let simple: [UInt8: UInt8] = [
      UInt8(ascii: "b"): 8, UInt8(ascii: "t"): 9, UInt8(ascii: "n"): 10, UInt8(ascii: "f"): 12,
      UInt8(ascii: "r"): 13, UInt8(ascii: "\""): 0x22, UInt8(ascii: "\\"): 0x5c,
    ]
    guard let byte = peek else { return }
    if let meant = simple[byte] {
      out.append(meant)
      at += 1
    } else if byte == "u" || byte == "U" {
      let digits = bytes[(at + 1)...].prefix(byte == "u" ? 4 : 8)
      guard digits.count == (byte == "u" ? 4 : 8), digits.allSatisfy(\.isHexDigit),
        let value = UInt32(String(decoding: digits, as: UTF8.self), radix: 16),
        let scalar = Unicode.Scalar(value)
      else {
        throw TOMLError(
          offset: start,
          message: "\\u takes four hexadecimal digits and \\U eight, of an existing character")
      }
      out += Array(String(Character(scalar)).utf8)
      at += 1 + digits.count
    } else if isLong, byte == " " || byte == "\t" || byte == 0x0a || byte == 0x0d {
      skipBlanks()
      guard takeLineBreak() else {
        throw TOMLError(offset: start, message: "nothing may follow the backslash that joins two lines")
      }
      while let next = peek, next == " " || next == "\t" || next == 0x0a || next == 0x0d { at += 1 }
    } else {
      throw TOMLError(
        offset: start,
        message:
          "there is no such escape sequence; a backslash itself is written \\\\, or the text in 'single quotes'"
      )
    }
  }

  // MARK: Bytes

  private var peek: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard peek == character else { return false }
    at += 1
    return true
  }

  private mutating func takeLineBreak() -> Bool {
    if take("\n") { return true }
    guard peek == 0x0d, at + 1 < bytes.count, bytes[at + 1] == 0x0a else { return false }
    at += 2
    return true
  }

  private mutating func skipBlanks() { while peek == " " || peek == "\t" { at += 1 } }

  private mutating func skipComment() { while let byte = peek, byte != 0x0a, byte != 0x0d { at += 1 } }

  private mutating func skipBlanksAndLines() {
    repeat {
      skipBlanks()
      if peek == "#" { skipComment() }
    } while takeLineBreak()
  }

  private func text(from start: Int) -> String { String(decoding: bytes[start..<at], as: UTF8.self) }

  private func error(_ message: String) -> TOMLError { TOMLError(offset: at, message: message) }
}

/// The values that are single words.
enum TOMLScalar {
  static func parse(_ word: String) -> TOMLValue.Content? {
    switch word {
    case "true": return .boolean(true)
    case "false": return .boolean(false)
    case "inf", "+inf": return .float(.infinity)
    case "-inf": return .float(-.infinity)
    case "nan", "+nan", "-nan": return .float(.nan)
    default: break
    }
    let bytes = Array(word.utf8)
    guard let first = bytes.first, first.isDigit || first == "+" || first == "-" else { return nil }
    if isTime(bytes[...]) { return .time(word) }
    // An underscore must stand between digits.
    for index in bytes.indices where bytes[index] == "_" {
      guard index > 0, index + 1 < bytes.count, bytes[index - 1].isHexDigit, bytes[index + 1].isHexDigit
      else { return nil }
    }
    let digits = word.filter { $0 != "_" }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] where digits.hasPrefix(prefix) {
      guard digits.dropFirst(2).first != "-", digits.dropFirst(2).first != "+" else { return nil }
      return Int64(digits.dropFirst(2), radix: radix).map { .integer($0) }
    }
    let unsigned = first.isDigit ? digits[...] : digits.dropFirst()
    let whole = unsigned.prefix { $0.isASCII && $0.isNumber }
    guard !whole.isEmpty, whole == "0" || !whole.hasPrefix("0") else { return nil }
    if whole.count == unsigned.count { return Int64(digits).map { .integer($0) } }
    guard isFraction(Array(unsigned.dropFirst(whole.count).utf8)) else { return nil }
    return Double(digits).map { .float($0) }
  }

  /// `.5`, `e10` or `.5e-10`.
  private static func isFraction(_ text: [UInt8]) -> Bool {
    var rest = text[...]
    if rest.first == "." {
      rest = rest.dropFirst()
      guard rest.first?.isDigit ?? false else { return false }
      rest = rest.drop(while: \.isDigit)
    }
    if rest.isEmpty { return true }
    guard rest.first == "e" || rest.first == "E" else { return false }
    rest = rest.dropFirst()
    if rest.first == "+" || rest.first == "-" { rest = rest.dropFirst() }
    return !rest.isEmpty && rest.allSatisfy(\.isDigit)
  }

  static func isDate(_ text: ArraySlice<UInt8>) -> Bool { fits(text, "0000-00-00") }

  private static func isTime(_ text: ArraySlice<UInt8>) -> Bool {
    isDate(text.prefix(10)) || fits(text.prefix(8), "00:00:00")
  }

  private static func fits(_ text: ArraySlice<UInt8>, _ shape: String) -> Bool {
    text.count == shape.utf8.count
      && zip(text, shape.utf8).allSatisfy { $1 == UInt8(ascii: "0") ? $0.isDigit : $0 == $1 }
  }
}

private func == (byte: UInt8?, character: Unicode.Scalar) -> Bool {
  byte.map { UInt32($0) == character.value } ?? false
}

private func ~= (character: Unicode.Scalar, byte: UInt8?) -> Bool { byte == character }

extension UInt8 {
  fileprivate var isDigit: Bool { (0x30...0x39).contains(self) }
  fileprivate var isHexDigit: Bool { isDigit || (0x61...0x66).contains(self | 0x20) }
  fileprivate var isLetterOrDigit: Bool { isDigit || (0x61...0x7a).contains(self | 0x20) }
}
