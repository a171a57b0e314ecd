import Glibc

/// When a file was made, and on which subvolume, as a digest. A file system may give the inode number of a removed file to the
/// next one that is made, and nothing else distinguishes the two where they have the same name.
///
/// Equal births do not prove that two files are the same: file systems round the time, by 4 ms or more, and the digest has only 16
/// bits, as every node stores one.
public struct Birth: Equatable, Sendable {
  /// The birth of a file where it could not be read, or is not needed.
  public static let unknown = Birth(digest: 0)

  private let digest: UInt16

  package init(digest: UInt16) { self.digest = digest }

  /// Known where the status comes from `Directory.cachedStatus` and the file system keeps the time. (`dfs_cached_status`)
  public init(_ status: stat) { digest = UInt16(truncatingIfNeeded: status.__glibc_reserved.0) }

  /// Whether files with these births, one of which may be unknown, can be the same.
  public func mayBe(_ other: Birth) -> Bool { self == other || self == .unknown || other == .unknown }
}

extension stat {
  /// Whether the kernel reported the number of the file's Btrfs subvolume, which the birth then includes. (`dfs_cached_status`;
  /// Linux 6.10)
  public var isOnNumberedSubvolume: Bool { __glibc_reserved.1 != 0 }

  /// Whether two statuses are of the same file, as far as can be seen.
  public func isOfSameFile(as other: stat) -> Bool {
    FileIdentity(self) == FileIdentity(other) && FileType(mode: st_mode) == FileType(mode: other.st_mode)
      && Birth(self).mayBe(Birth(other))
  }
}
