/// The `globs2` table of the freedesktop.org shared MIME database (`/usr/share/mime/globs2`).
public enum SharedMimeGlobs {
  /// The simple extensions of a table: those of globs `*.ext` with one period and no wildcard in `ext`.
  ///
  /// Lines are `weight:type:glob[:flags]`. Comments, other globs and malformed lines are skipped. Numbers and the suffixes of
  /// backup and unfinished files are left out, although the database assigns types to them: hiding `bak` would make a copy look
  /// like the original.
  public static func extensions(_ table: [UInt8]) -> [String] {
    var found: [String] = []
    for line in table.split(separator: 0x0a) where line.first != 0x23 {
      let fields = line.split(separator: 0x3a, omittingEmptySubsequences: false)
      guard fields.count >= 3, fields[2].starts(with: [0x2a, 0x2e]) else { continue }
      let ext = fields[2].dropFirst(2)
      guard !ext.isEmpty, ext.count <= FoldedExtension.maximumLength,
        !ext.allSatisfy({ (0x30...0x39).contains($0) }),
        !ext.contains(where: { $0 <= 0x20 || reserved.contains($0) }),
        let text = String(validating: ext, as: UTF8.self), !incidental.contains(text)
      else { continue }
      found.append(text)
    }
    return found
  }

  /// `*`, `?`, `[`, `.`, `/`, `~`, `%`: wildcards, separators and marks of backup copies.
  private static let reserved: [UInt8] = [0x2a, 0x3f, 0x5b, 0x2e, 0x2f, 0x7e, 0x25]

  private static let incidental = ExtensionSet(
    words: "bak old orig tmp temp part partial crdownload download swp swo lock rej save sik")
}
