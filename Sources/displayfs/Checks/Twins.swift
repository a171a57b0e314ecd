import DisplayNames
import SystemPackage
import View

/// Listed entries of one directory whose real names are equal but for normalization, or for case as well.
struct Twins {
  private var groups: [NameMatching: [Name: (count: Int, example: FilePath)]] = [:]

  mutating func add(_ entry: Explanation) {
    let path = entry.realPath
    for matching in [NameMatching.canonical, .caseless] {
      let form = Name(
        Array(path.removingLastComponent().bytes) + [0x2f] + matching.sharedForm(of: entry.realName).bytes)
      groups[matching, default: [:]][form, default: (0, path)].count += 1
    }
  }

  /// The number of entries that have a twin by a comparison.
  func count(_ matching: NameMatching) -> Int {
    (groups[matching] ?? [:]).values.reduce(0) { $1.count > 1 ? $0 + $1.count : $0 }
  }

  /// - Parameter extent: what follows the word entry where not all were looked at.
  func finding(_ extent: String) -> Finding {
    let check = "equal names"
    let (canonical, caseless) = (count(.canonical), count(.caseless))
    if caseless == 0 {
      return .ok(
        check, "no entry\(extent) has a name that differs from another's in case or normalization alone")
    }
    let examples = (groups[.caseless] ?? [:]).values.filter { $0.count > 1 }.map(\.example.description)
      .sorted()
    return .advice(
      check,
      "\(canonical) entries\(extent) have the name of another but for normalization (canonical), "
        + "and \(caseless) but for case too (caseless): " + examples.prefix(3).joined(separator: ", ")
        + (examples.count > 3 ? ", ..." : ""),
      do:
        "type their names exactly; by matching= a third spelling leads to none of them. A Mac's volume holds one of each"
    )
  }
}
