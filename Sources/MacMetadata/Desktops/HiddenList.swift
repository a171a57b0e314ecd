/// A directory's `.hidden` file: a list of names that file managers hide in that directory.
public enum HiddenList {
  /// The names as bytes; nil when the file exceeds the size limit.
  ///
  /// Lines are compared exactly, without comments, patterns or trimming (glib "glocalfileinfo.c"), and also without a final
  /// carriage return (KIO "kcoredirlister.cpp"). A name with one is therefore in the set in both forms. Empty lines are skipped.
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
