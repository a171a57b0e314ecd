import BackingTree
import CLinux
import Glibc
import SystemPackage

/// A package as the directory that it is. No symlink in it is followed, and no mount point entered.
final class DirectoryContents: PackageContents {
  private let descriptor: Descriptor
  /// The most names of a directory that are looked at.
  private static let largestCount = 10_000

  /// (`open`)
  init(_ path: FilePath) throws(Errno) { descriptor = try path.openDirectory() }

  private var directory: Directory { Directory(descriptor: descriptor.rawValue) }

  func file(_ path: String, limit: Int) -> [UInt8]? { directory.smallFile(path, limit: limit) }

  func beginning(of path: String, length: Int) -> [UInt8]? { directory.beginning(of: path, limit: length) }

  func attribute(_ name: String, of path: String, limit: Int) -> [UInt8]? {
    guard let file = try? directory.openRegular(path, O_RDONLY) else { return nil }
    return ExtendedAttributes(of: file.descriptor.rawValue).value(name, limit: limit)
  }

  func names(in path: String) -> [String] {
    var names: [String] = []
    let flags = O_RDONLY | dfs_O_DIRECTORY
    guard let opened = try? directory.openBeneath(path.isEmpty ? "." : path, flags) else { return [] }
    try? forEachEntry(of: opened.rawValue) { (entry) throws(Errno) in
      guard names.count < Self.largestCount else { throw .outOfRange }
      if let name = String(validating: entry.name, as: UTF8.self) { names.append(name) }
    }
    return names
  }
}
