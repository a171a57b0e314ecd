/// A directory's `.hidden` file: the names that file managers do not show there.
public enum HiddenList {
  /// The names, as bytes; nil when the file is too long to be one.
  ///
  /// Lines are compared exactly, without comments, patterns or trimming (glib "glocalfileinfo.c"), and also without a
  /// final carriage return (KIO "kcoredirlister.cpp"): a name is in the set both ways. Empty lines are skipped.
  public static func parse(_ bytes: [UInt8]) -> Set<[UInt8]>? {
    guard bytes.count <= ParserLimits.inputBytes else { return nil }
    var names: Set<[UInt8]> = []
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      names.insert(Array(line))
      if line.last == UInt8(ascii: "\r"), line.count > 1 { names.insert(Array(line.dropLast())) }
    }
    return names
  }
}
