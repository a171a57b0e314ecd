import BackingTree
import CLinux
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// Reads aliases of the Finder, and finds their targets in the tree. (`aliases=symlink`)
struct Aliases: Sendable {
  /// An alias, and where it leads.
  struct Found {
    /// The path on the Mac that wrote it.
    let target: AliasTarget
    /// The real names that lead from SOURCE to the target; nil where it is not in the tree.
    let path: [Name]?
    /// The directories in which a change may make the target appear or disappear, as paths from SOURCE that begin with a slash.
    let directories: [[UInt8]]
  }

  let root: DirectoryHandle
  /// The name of SOURCE.
  private let source: Name

  init(root: DirectoryHandle) {
    self.root = root
    let path = try? Directory(descriptor: AT_FDCWD).symlinkTarget(
      "/proc/self/fd/\(root.directory.descriptor)")
    source = Name(path?.split(separator: 0x2f).last ?? [])
  }

  /// The alias that a regular file is; nil for any other file, and for a malformed alias.
  ///
  /// - Parameters:
  ///   - hasFlag: whether the Finder info says that the file is an alias. Old aliases have their record in the resource fork.
  ///   - place: the real names that lead from SOURCE to `directory`.
  func find(
    _ name: Name, in directory: Directory, at place: [Name], hasFlag: Bool,
    sideFiles: FinderMetadata.SideFiles
  ) -> Found? {
    guard
      let target = Self.bookmark(name, in: directory)
        ?? (hasFlag ? Self.record(name, in: directory, sideFiles) : nil)
    else { return nil }
    let candidates = AliasPlaces.candidates(for: target, source: source, directory: place)
    let alias = CName(name).withPointer { try? directory.status($0) }.map { FileIdentity($0) }
    let path = candidates.lazy.flatMap { [$0, $0.map(\.composed)] }.first { path in
      // An alias of itself would be a symlink that leads nowhere.
      identity(of: path).map { $0 != alias } ?? false
    }
    return Found(target: target, path: path, directories: Self.directories(of: candidates))
  }

  /// Reads no more than the beginning of a file that is not an alias.
  private static func bookmark(_ name: Name, in directory: Directory) -> AliasTarget? {
    CName(name).withPointer { name in
      guard AliasTarget.isAliasFile(directory.beginning(of: name, limit: AliasTarget.magicLength) ?? [])
      else {
        return nil
      }
      return directory.smallFile(name, limit: ParserLimits.inputBytes).flatMap(AliasTarget.ofFile)
    }
  }

  private static func record(
    _ name: Name, in directory: Directory, _ sideFiles: FinderMetadata.SideFiles
  ) -> AliasTarget? {
    let attributes = CName(name).withPointer { ExtendedAttributes(of: $0, in: directory) }
    for attribute in ["user.com.apple.ResourceFork", "user.DosStream.AFP_Resource:$DATA"] {
      if let fork = attributes.value(attribute, limit: DesktopAttribute.largestValue),
        let target = AliasTarget.ofResourceFork(fork)
      {
        return target
      }
    }
    for path in FinderMetadata.paths(of: name, sideFiles) {
      guard let file = AppleDoubleFile(path, in: directory, .daemon), let range = file.header.resourceFork,
        range.count <= ParserLimits.inputBytes
      else { continue }
      if let target = (try? file.bytes(in: range)).flatMap(AliasTarget.ofResourceFork) { return target }
    }
    return nil
  }

  /// The file that a path below SOURCE leads to without passing a symlink or another file system.
  private func identity(of path: [Name]) -> FileIdentity? {
    let path = Array(path.map(\.bytes).joined(separator: [0x2f]))
    return path.withCName { try? root.directory.statusBeneath($0) }.map { FileIdentity($0) }
  }

  private static let mostDirectories = 24

  private static func directories(of paths: [[Name]]) -> [[UInt8]] {
    var directories: [[UInt8]] = []
    for path in paths {
      var directory: [UInt8] = []
      for name in path {
        let source = directory.isEmpty ? Array("/.".utf8) : directory
        if !directories.contains(source), directories.count < mostDirectories { directories.append(source) }
        directory += [0x2f] + name.bytes
      }
    }
    return directories
  }
}
