import Glibc

/// When a file was made, and on which subvolume, as a digest. A file system may give the inode number of a removed file to the
/// next one that is made, and nothing else distinguishes the two where they have the same name.
///
/// Files whose births are equal may still be different ones: file systems round the time, to 4 ms and more, and the digest has 16
/// bits, as each node has one.
public struct Birth: Equatable, Sendable {
  /// That of a file whose birth could not be found out or does not matter.
  public static let unknown = Birth(digest: 0)

  private let digest: UInt16

  package init(digest: UInt16) { self.digest = digest }

  /// Known where the status comes from `Directory.cachedStatus` and the file system keeps the time. (`dfs_cached_status`)
  public init(_ status: stat) { digest = UInt16(truncatingIfNeeded: status.__glibc_reserved.0) }

  /// Whether files with these births, one of which may be unknown, can be the same.
  public func mayBe(_ other: Birth) -> Bool { self == other || self == .unknown || other == .unknown }
}

extension stat {
  /// Whether the file is on a subvolume of Btrfs, whose number is part of the birth. (`dfs_cached_status`; Linux 6.10)
  public var isOnNumberedSubvolume: Bool { __glibc_reserved.1 != 0 }

  /// Whether two statuses are of the same file, as far as can be seen.
  public func isOfSameFile(as other: stat) -> Bool {
    FileIdentity(self) == FileIdentity(other) && FileType(mode: st_mode) == FileType(mode: other.st_mode)
      && Birth(self).mayBe(Birth(other))
  }
}
