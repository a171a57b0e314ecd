/// Where an alias of the Finder leads to, as it was on the Mac that wrote it.
public struct AliasTarget: Hashable, Sendable {
  /// The components of the mount point of the target's volume; empty for the Mac's own volume.
  public let volume: [[UInt8]]
  /// The components of the target's path, from the root of its volume. Never empty.
  public let path: [[UInt8]]

  /// The largest number of components.
  public static let maximumDepth = 128

  /// - Parameter path: from the root of the volume or, as macOS writes it, from the root of the Mac.
  /// - Returns: nil for a path that does not name an entry of the volume.
  package init?(volume: [[UInt8]], path: [[UInt8]]) {
    let path = !volume.isEmpty && path.starts(with: volume) ? Array(path.dropFirst(volume.count)) : path
    guard !path.isEmpty, path.count + volume.count <= Self.maximumDepth,
      path.allSatisfy(Self.isName), volume.allSatisfy(Self.isName)
    else { return nil }
    self.volume = volume
    self.path = path
  }

  /// Paths are data of the volume: a component that leads upward would leave the tree.
  private static func isName(_ component: [UInt8]) -> Bool {
    !component.isEmpty && component.count <= 255 && component != [0x2e] && component != [0x2e, 0x2e]
      && !component.contains(0x2f) && !component.contains(0)
  }

  /// The components of a POSIX path.
  static func components(of path: some Collection<UInt8>) -> [[UInt8]] {
    path.split(separator: 0x2f).map { Array($0) }
  }

  /// How many bytes of a file tell whether it is an alias file with a bookmark.
  public static let magicLength = Bookmark.magic.count

  public static func isAliasFile(_ beginning: [UInt8]) -> Bool { beginning.starts(with: Bookmark.magic) }

  /// The target of an alias file with the data fork `bytes`; nil when it is not a bookmark or is malformed.
  public static func ofFile(_ bytes: [UInt8]) -> AliasTarget? { Bookmark(bytes)?.target }

  /// The target of an alias file with the resource fork `bytes`, as Mac OS 9 and early versions of OS X wrote it; nil when it
  /// has no alias record or is malformed.
  public static func ofResourceFork(_ bytes: [UInt8]) -> AliasTarget? {
    ResourceFork.resource("alis", in: bytes).flatMap { AliasRecord.target(Array(bytes[$0])) }
  }
}
