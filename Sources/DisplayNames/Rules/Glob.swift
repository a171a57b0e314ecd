/// A pattern for one name: `*` matches any characters, `?` one character, `[a-z]` one of a set and `[!a-z]` one outside a set;
/// `\` escapes the next character.
///
/// Characters are Unicode scalars, compared in normalization form C, so that a pattern typed in a configuration file also matches
/// on a volume with decomposed names. A byte that is not UTF-8 is a character that only `*`, `?` and `[!...]` match.
struct Glob: Sendable, Hashable {
  private enum Token: Sendable, Hashable {
    case character(UInt32)
    case anyCharacter
    case anyCharacters
    case set([ClosedRange<UInt32>], isNegated: Bool)
  }

  private let tokens: [Token]

  /// Matches every name.
  static let any = Glob(tokens: [.anyCharacters])

  private init(tokens: [Token]) { self.tokens = tokens }

  /// - Throws: the fault of the pattern, without the pattern itself.
  init(_ pattern: some StringProtocol) throws(OptionError) {
    var tokens: [Token] = []
    var rest = Array(String(pattern).normalizedC.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      switch scalar {
      case "*": if tokens.last != .anyCharacters { tokens.append(.anyCharacters) }
      case "?": tokens.append(.anyCharacter)
      case "[": tokens.append(try Self.set(&rest))
      case "\\":
        guard let next = rest.popFirst() else {
          throw OptionError("nothing follows the backslash at its end")
        }
        tokens.append(.character(next.value))
      default: tokens.append(.character(scalar.value))
      }
    }
    self.tokens = tokens
  }

  /// Parses a set after its `[`, up to its `]`. A `]` in first position is a member of the set.
  private static func set(_ rest: inout ArraySlice<Unicode.Scalar>) throws(OptionError) -> Token {
    var ranges: [ClosedRange<UInt32>] = []
    let isNegated = rest.first == "!" || rest.first == "^"
    if isNegated { rest.removeFirst() }
    var isFirst = true
    while let scalar = rest.popFirst() {
      if scalar == "]", !isFirst { return .set(ranges, isNegated: isNegated) }
      isFirst = false
      if rest.first == "-", let end = rest.dropFirst().first, end != "]" {
        rest.removeFirst(2)
        guard scalar.value <= end.value else {
          throw OptionError("the range \(scalar)-\(end) is the wrong way round")
        }
        ranges.append(scalar.value...end.value)
      } else {
        ranges.append(scalar.value...scalar.value)
      }
    }
    throw OptionError("a ] is missing; write \\[ for the character itself")
  }

  /// Takes at most time proportional to the product of both lengths.
  func matches(_ name: Span<UInt8>) -> Bool {
    if tokens == [.anyCharacters] { return true }
    for index in name.indices where name[index] >= 0x80 {
      let bytes = name.withUnsafeBytes { Array($0) }
      guard let text = String(validating: bytes, as: UTF8.self) else { break }
      return matches(bytes: Array(text.normalizedC.utf8).span)
    }
    return matches(bytes: name)
  }

  private func matches(bytes name: Span<UInt8>) -> Bool {
    var token = 0
    var position = 0
    /// The backtracking point: the last `*`, which takes one more character when the tokens after it do not match.
    var retry: (token: Int, position: Int)?
    while position < name.count || token < tokens.count {
      if token < tokens.count, tokens[token] == .anyCharacters {
        retry = (token, position)
        token += 1
        continue
      }
      if token < tokens.count, position < name.count {
        let (character, next) = Self.character(of: name, at: position)
        if matches(tokens[token], character) {
          token += 1
          position = next
          continue
        }
      }
      guard let again = retry, again.position < name.count else { return false }
      let next = Self.character(of: name, at: again.position).next
      retry = (again.token, next)
      token = again.token + 1
      position = next
    }
    return true
  }

  private func matches(_ token: Token, _ character: UInt32) -> Bool {
    switch token {
    case .character(let expected): character == expected
    case .anyCharacter, .anyCharacters: true
    case .set(let ranges, let isNegated): ranges.contains { $0.contains(character) } != isNegated
    }
  }

  /// The scalar at an index. A byte that does not begin a valid sequence gets a value above all scalars.
  private static func character(of name: Span<UInt8>, at index: Int) -> (value: UInt32, next: Int) {
    let first = name[index]
    let length =
      first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0
    guard length > 0, index + length <= name.count else { return (0x11_0000 + UInt32(first), index + 1) }
    if length == 1 { return (UInt32(first), index + 1) }
    var value = UInt32(first) & (0x7f >> UInt32(length))
    for offset in 1..<length {
      let byte = name[index + offset]
      guard byte & 0xc0 == 0x80 else { return (0x11_0000 + UInt32(first), index + 1) }
      value = value << 6 | UInt32(byte & 0x3f)
    }
    return (value, index + length)
  }
}
