/// Suggests corrections for misspelled words.
public enum Spelling {
  /// The candidate that begins with `word`, else the candidate with the smallest distance; nil if none is near.
  public static func nearest(_ word: String, among candidates: [String]) -> String? {
    if word.count > 2, let whole = candidates.first(where: { $0.hasPrefix(word) }) { return whole }
    let nearest = candidates.min { distance($0, word) < distance($1, word) }
    return nearest.flatMap { distance($0, word) <= 3 ? $0 : nil }
  }

  /// A sentence that reports an unknown word, and the word that may have been meant.
  static func unknown(_ word: String, _ kind: String, among candidates: [String]) -> String {
    "\(word): no such \(kind)"
      + (nearest(word, among: candidates).map { "; did you mean \($0)?" }
        ?? "; use one of: \(candidates.joined(separator: ", "))")
  }

  /// The number of letters that differ (Levenshtein distance). Only the beginning of a long word is compared.
  private static func distance(_ a: String, _ b: String) -> Int {
    let a = a.prefix(64)
    let b = Array(b.prefix(64))
    var row = Array(0...b.count)
    for (i, left) in a.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for (j, right) in b.enumerated() {
        let substituted = diagonal + (left == right ? 0 : 1)
        diagonal = row[j + 1]
        row[j + 1] = min(substituted, row[j] + 1, row[j + 1] + 1)
      }
    }
    return row[b.count]
  }
}
