/// A value of a TOML document, and the offset at which it begins.
struct TOMLValue {
  enum Content {
    case string(String)
    case integer(Int64)
    case float(Double)
    case boolean(Bool)
    /// A date, a time or both, as written.
    case time(String)
    case array([TOMLValue])
    case table(TOMLTable)
    /// An array that was written as `[[name]]`, table by table.
    case tables([TOMLTable])
  }

  let content: Content
  let offset: Int

  /// The kind of the value, for messages.
  var kind: String {
    switch content {
    case .string: "a string"
    case .integer: "a whole number"
    case .float: "a number"
    case .boolean: "true or false"
    case .time: "a date"
    case .array: "an array"
    case .table: "a table"
    case .tables: "an array of tables"
    }
  }
}

/// A table of a TOML document, with its keys in the order in which they were written.
final class TOMLTable {
  /// How the table was defined. This decides what may still be added to it.
  enum Definition { case implicit, header, dotted, inline }

  struct Entry {
    let key: String
    let offset: Int
    var value: TOMLValue
  }

  var definition: Definition
  /// The offset at which the table begins.
  let offset: Int
  private(set) var entries: [Entry] = []
  private var positions: [String: Int] = [:]

  init(_ definition: Definition, offset: Int) {
    self.definition = definition
    self.offset = offset
  }

  subscript(key: String) -> TOMLValue? { positions[key].map { entries[$0].value } }

  /// Adds a value, or replaces the value of the key.
  func set(_ key: String, at offset: Int, to value: TOMLValue) {
    if let position = positions[key] {
      entries[position].value = value
    } else {
      positions[key] = entries.count
      entries.append(Entry(key: key, offset: offset, value: value))
    }
  }
}

/// A problem in a document, and the offset of the byte at which it was found.
struct TOMLError: Error {
  let offset: Int
  let message: String
}
