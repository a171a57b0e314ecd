import PackageStream
import SystemPackage

/// A package as its stream, read from a file.
struct StreamContents: PackageContents {
  private let files: StreamFiles
  /// The most members that are looked at: what lies behind them is not found. Each head is a read of 16 KiB at most.
  private static let largestCount = 20_000

  /// - Parameter descriptor: open for reading, which the caller keeps open.
  /// - Throws: when the file is not a package's stream.
  init(_ descriptor: CInt) throws(PackageImportError) {
    files = try StreamFiles(of: descriptor, members: Self.largestCount)
  }

  func file(_ path: String, limit: Int) -> [UInt8]? {
    guard let size = files.size(of: Array(path.utf8)), size <= limit else { return nil }
    return beginning(of: path, length: limit)
  }

  func beginning(of path: String, length: Int) -> [UInt8]? {
    files.beginning(of: Array(path.utf8), length: length)
  }

  func attribute(_ name: String, of path: String, limit: Int) -> [UInt8]? {
    let value = files.attribute(name, of: Array(path.utf8))
    return value.flatMap { $0.count <= limit ? $0 : nil }
  }

  func names(in directory: String) -> [String] {
    let above = directory.isEmpty ? [] : Array("\(directory)/".utf8)
    let names = files.paths.lazy.filter { $0.starts(with: above) }.map { path in
      path.dropFirst(above.count).prefix { $0 != UInt8(ascii: "/") }
    }
    return Set(names).compactMap { String(validating: $0, as: UTF8.self) }
  }
}
