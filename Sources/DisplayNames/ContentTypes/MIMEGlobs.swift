/// The patterns of names in a freedesktop.org shared MIME database, and the types of the names that match them.
/// (Shared MIME-info Database specification, The glob files)
package struct MIMEGlobs: Sendable {
  private struct Entry: Sendable {
    let type: String
    let weight: Int
    let length: Int
  }

  /// Names without a wildcard, and what follows the `*` of patterns that have no other wildcard. In both, patterns that count
  /// whatever their case are in lower case.
  private var literals: [[UInt8]: Entry] = [:]
  private var suffixes: [[UInt8]: Entry] = [:]
  private var caseSensitiveSuffixes: [[UInt8]: Entry] = [:]
  private var others: [(glob: Glob, entry: Entry)] = []

  /// Knows no name.
  package init() {}

  /// Adds a `globs2` file: lines of `weight:type:pattern[:flags]`. Comments and malformed lines are skipped.
  package mutating func add(_ table: [UInt8]) {
    for line in table.split(separator: 0x0a) where line.first != 0x23 {
      let fields = line.split(separator: 0x3a, omittingEmptySubsequences: false)
      guard fields.count >= 3, let weight = Int(String(decoding: fields[0], as: UTF8.self)),
        let type = String(validating: fields[1], as: UTF8.self), type.contains("/"), !fields[2].isEmpty
      else { continue }
      let flags = fields.count > 3 ? fields[3].split(separator: 0x2c) : []
      add(
        Array(fields[2]), Entry(type: type, weight: weight, length: fields[2].count),
        isCaseSensitive: flags.contains { $0.elementsEqual("cs".utf8) })
    }
  }

  private mutating func add(_ pattern: [UInt8], _ entry: Entry, isCaseSensitive: Bool) {
    func isWildcard(_ byte: UInt8) -> Bool { byte == 0x2a || byte == 0x3f || byte == 0x5b }
    let folded = pattern.map(asciiLowercase)
    if !pattern.contains(where: isWildcard) {
      Self.insert(entry, for: folded, into: &literals)
    } else if pattern[0] == 0x2a, !pattern.dropFirst().contains(where: isWildcard) {
      if isCaseSensitive {
        Self.insert(entry, for: Array(pattern.dropFirst()), into: &caseSensitiveSuffixes)
      } else {
        Self.insert(entry, for: Array(folded.dropFirst()), into: &suffixes)
      }
    } else if let glob = try? Glob(String(decoding: pattern, as: UTF8.self)) {
      others.append((glob, entry))
    }
  }

  /// Of two types for one pattern the first stays, as in the database's own order.
  private static func insert(_ entry: Entry, for pattern: [UInt8], into table: inout [[UInt8]: Entry]) {
    if let known = table[pattern], known.weight >= entry.weight { return }
    table[pattern] = entry
  }

  /// The MIME type of a name: that of the pattern with the highest weight among those that match it, and of these that of the
  /// longest. Nil if none matches.
  package func type(of name: Name) -> String? {
    let folded = name.bytes.map(asciiLowercase)
    var matches: [Entry] = []
    if let literal = literals[folded] { matches.append(literal) }
    for start in name.bytes.indices {
      if let entry = caseSensitiveSuffixes[Array(name.bytes[start...])] { matches.append(entry) }
      if let entry = suffixes[Array(folded[start...])] { matches.append(entry) }
    }
    matches += others.filter { $0.glob.matches(name.bytes.span) }.map(\.entry)
    return matches.max { ($0.weight, $0.length) < ($1.weight, $1.length) }?.type
  }
}
