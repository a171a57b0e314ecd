import BackingTree
import DisplayNames
import MacMetadata
import SystemPackage

/// The files in which netatalk keeps extended attributes on a volume with `ea = ad`, where the file system has none.
///
/// They are beside the AppleDouble file `.AppleDouble/x` of the entry `x`: a list `x::EA` of their names and sizes, and for each
/// attribute a file `x::EA::NAME` with its value. In NAME a colon is written `:3a`. (afp.conf(5); netatalk 4.2 names them so.)
enum NetatalkAttributeFiles {
  private static let ending = Array("::EA".utf8)
  private static let separator = Array("::".utf8)

  /// The path of the list, by that of the AppleDouble file.
  static func list(of file: [UInt8]) -> [UInt8] { file + ending }

  /// The path of the list that a path belongs to: its own, or that of a file with one of the attributes. Nil for other paths.
  static func list(at path: [UInt8]) -> [UInt8]? {
    path.firstRange(of: ending).map { Array(path[..<$0.upperBound]) }
  }

  /// The path of the file with an attribute, by that of the AppleDouble file.
  static func file(with attribute: DesktopAttribute, of file: [UInt8]) -> [UInt8] {
    let name = attribute.macNames[0].utf8.flatMap { byte in
      byte == UInt8(ascii: ":") ? Array(":3a".utf8) : [byte]
    }
    return file + ending + separator + name
  }

  /// The entry that a file in `.AppleDouble` belongs to.
  static func owner(of name: Name) -> Name {
    name.bytes.firstRange(of: ending).map { Name(name.bytes[..<$0.lowerBound]) } ?? name
  }

  /// What follows the entry's name in the names of its list and its attributes' files; nothing where it has no list.
  ///
  /// - Parameter files: the directory `.AppleDouble`.
  static func suffixes(of name: Name, in files: Directory) -> [[UInt8]] {
    let list = list(of: name.bytes)
    guard list.withCName({ files.has($0) }), let readable = try? files.openForReading() else { return [] }
    var suffixes: [[UInt8]] = []
    try? forEachEntry(of: readable.rawValue) { (entry) throws(Errno) in
      guard entry.name.starts(with: list) else { return }
      let rest = entry.name.dropFirst(list.count)
      if rest.isEmpty || rest.starts(with: separator) { suffixes.append(ending + rest) }
    }
    return suffixes
  }
}
