import CFuse

/// What kind of file system something lies on. (`f_type` of statfs(2))
public struct FileSystemKind: Equatable, Sendable {
  private let magic: UInt32

  public init(of descriptor: CInt) { magic = dfs_file_system_magic(descriptor) }

  /// One whose files are also changed elsewhere, of which its watchers here are not told: on other machines, or by a
  /// program that serves it.
  public var changesUnseen: Bool {
    switch magic {
    // NFS, SMB (three of them), AFS, Coda, NCP, 9P, Ceph, Lustre, VirtualBox's and VMware's shared folders, FUSE.
    case 0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x7375_7245, 0x564c, 0x0102_1997, 0x00c3_6400,
      0x0bd0_0bd0, 0x786f_4256, 0xbacb_acbc, 0x6573_5546:
      true
    default: false
    }
  }

  /// One that shows other file systems' files as its own, as in most containers.
  public var isOverlay: Bool { magic == 0x794c_7630 }

  /// Whether a write that succeeded is kept without anything being done when the file is closed, as on every local file
  /// system: close(2) reports errors of network file systems.
  public var keepsWhatWasWritten: Bool { isLocal }

  /// One that the kernel serves by itself, from a disk or memory.
  public var isLocal: Bool { Self.local.contains(magic) }

  /// One on which a write through a mapping changes the file's times, when it is the first to a page since that was written
  /// back: ext2 to ext4, btrfs, XFS, F2FS. Not tmpfs, which has no `page_mkwrite`.
  public var timesMappedWrites: Bool { [0xef53, 0x9123_683e, 0x5846_5342, 0xf2f5_2010].contains(magic) }

  /// linux/magic.h: ext2 to ext4, tmpfs, btrfs, XFS, F2FS, ZFS, overlayfs, FAT, exFAT, ISO 9660, UDF, HFS+, bcachefs, JFS,
  /// ReiserFS, NILFS2, NTFS3, ramfs.
  private static let local: Set<UInt32> = [
    0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0xf2f5_2010, 0x2fc1_2fc1, 0x794c_7630, 0x4d44, 0x2011_bab0,
    0x9660,
    0x1501_3346, 0x482b, 0xca45_1a4e, 0x3153_464a, 0x5265_4973, 0x3434, 0x7366_746e, 0x8584_58f6,
  ]
}
