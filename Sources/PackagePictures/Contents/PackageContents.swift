/// The files of a package, or of a folder, wherever they are read from. Paths are relative, their components separated by
/// slashes.
protocol PackageContents {
  /// The whole content of a regular file; nil where there is none, it is larger than `limit` bytes, or it cannot be read.
  func file(_ path: String, limit: Int) -> [UInt8]?
  /// The first `length` bytes of a regular file, or all of a shorter one.
  func beginning(of path: String, length: Int) -> [UInt8]?
  /// An extended attribute of a regular file, of at most `limit` bytes.
  func attribute(_ name: String, of path: String, limit: Int) -> [UInt8]?
  /// The names of a directory's entries that are text, in no order; none where there is no such directory.
  func names(in directory: String) -> [String]
}

enum PackagePath {
  /// The path of an entry of a directory, which is empty for the package's own.
  static func joined(_ directory: String, _ name: String) -> String {
    directory.isEmpty ? name : "\(directory)/\(name)"
  }
}
