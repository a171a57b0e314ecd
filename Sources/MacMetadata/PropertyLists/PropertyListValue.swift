import FoundationEssentials

/// A property list as a tree of the value types used in declarations of names and types.
public indirect enum PropertyListValue: Sendable, Equatable {
  case dictionary([String: PropertyListValue])
  case array([PropertyListValue])
  case string(String)
  case bool(Bool)
  case integer(Int)
  /// Data, dates, reals and integers beyond 64 bits: present, but not used by the view.
  case other

  /// Parses a binary, XML or old-style property list; nil when it is malformed, too long, nested too deeply, or has too many values
  /// that are nested deeply.
  ///
  /// Prints nothing and never crashes on hostile input, unlike `PropertyListSerialization` on Linux.
  public static func parse(_ bytes: [UInt8]) -> PropertyListValue? {
    guard bytes.count <= ParserLimits.inputBytes else { return nil }
    if bytes.starts(with: Array("bplist".utf8)) {
      return PropertyListGuard.admitsBinary(bytes) ? decode(bytes) : nil
    }
    guard let text = TextEncoding.text(of: bytes) else { return nil }
    let body = Array(text.utf8.drop { $0 <= UInt8(ascii: " ") })
    if body.isEmpty { return .dictionary([:]) }
    // An old-style list needs no guard: its parser has its own limit, and so has the tree that `init(from:)` builds.
    if body.first == UInt8(ascii: "<"), !PropertyListGuard.admitsXML(body) { return nil }
    // For the decoder, a byte order mark overrides an XML declaration, which still names the original encoding.
    return decode([0xEF, 0xBB, 0xBF] + body)
  }

  private static func decode(_ bytes: [UInt8]) -> PropertyListValue? {
    let decoder = PropertyListDecoder()
    decoder.userInfo[Progress.key] = Progress()
    return try? decoder.decode(PropertyListValue.self, from: Data(bytes))
  }

  /// How far the decoder has come in a list. Used by one thread. (`Decoder.codingPath` would be made anew for each value.)
  private final class Progress: @unchecked Sendable {
    static let key = CodingUserInfoKey(rawValue: "progress")!

    private var depth = 0
    /// The sum of the depths of the values so far.
    private var depthSum = 0

    func enterValue() throws(DecodingError) {
      depth += 1
      depthSum += depth
      guard depth <= ParserLimits.nesting + 1, depthSum <= ParserLimits.depthSum else {
        throw .dataCorrupted(.init(codingPath: [], debugDescription: "nested too deeply"))
      }
    }

    func leaveValue() { depth -= 1 }
  }
}

extension PropertyListValue: Decodable {
  private struct Key: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  public init(from decoder: any Decoder) throws {
    // `decode` puts it there.
    let progress = decoder.userInfo[Progress.key] as! Progress
    try progress.enterValue()
    defer { progress.leaveValue() }
    let single = try decoder.singleValueContainer()
    if let value = try? single.decode(String.self) {
      self = .string(value)
    } else if let container = try? decoder.container(keyedBy: Key.self) {
      var members: [String: PropertyListValue] = [:]
      for key in container.allKeys {
        members[key.stringValue] = try container.decode(PropertyListValue.self, forKey: key)
      }
      self = .dictionary(members)
    } else if var container = try? decoder.unkeyedContainer() {
      var elements: [PropertyListValue] = []
      while !container.isAtEnd { elements.append(try container.decode(PropertyListValue.self)) }
      self = .array(elements)
    } else if let value = try? single.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? single.decode(Int.self) {
      self = .integer(value)
    } else {
      self = .other
    }
  }
}

extension PropertyListValue {
  /// The member of a dictionary; nil for every other type of value.
  subscript(key: String) -> PropertyListValue? {
    if case .dictionary(let members) = self { members[key] } else { nil }
  }

  var text: String? {
    if case .string(let value) = self { value } else { nil }
  }

  /// The truth value as CoreFoundation reads it from an Info.plist: a boolean, a number, or the strings YES, true and 1.
  var boolValue: Bool? {
    switch self {
    case .bool(let value): value
    case .integer(let value): value != 0
    case .string(let value): ["yes", "true", "1"].contains(value.lowercased())
    default: nil
    }
  }

  var elements: [PropertyListValue] {
    if case .array(let values) = self { values } else { [] }
  }

  /// The strings of a value that may be written as one string or as an array of strings.
  var oneOrMoreTexts: [String] { text.map { [$0] } ?? elements.compactMap(\.text) }
}
