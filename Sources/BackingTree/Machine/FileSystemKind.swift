import CLinux

/// The type of the file system that a file is on. (`f_type` of statfs(2))
public struct FileSystemKind: Hashable, Sendable {
  private let magic: UInt32

  public init(of descriptor: CInt) { magic = dfs_file_system_magic(descriptor) }

  /// Whether files may also be changed by other machines or by the process that serves the file system. Local watches do not
  /// report such changes.
  public var mayChangeUnseen: Bool {
    switch magic {
    // NFS, AFS, Coda, NCP, 9P, Ceph, Lustre, VirtualBox's and VMware's shared folders, FUSE.
    case 0x6969, 0x5346_414f, 0x7375_7245, 0x564c, 0x0102_1997, 0x00c3_6400,
      0x0bd0_0bd0, 0x786f_4256, 0xbacb_acbc, 0x6573_5546:
      true
    default: isSMB
    }
  }

  /// Whether a file that a process refers to, even by an O_PATH descriptor, gets another name in its directory when its last
  /// name is removed, and so keeps the directory from being removed: NFS, AFS. (`nfs_sillyrename`, `afs_sillyrename`)
  public var renamesRemovedFiles: Bool { magic == 0x6969 || magic == 0x5346_414f }

  /// Whether a lock on a range keeps every other descriptor from reading or writing there, those of the same process too: SMB.
  public var hasMandatoryLocks: Bool { isSMB }

  /// Whether this is overlayfs, which shows files of other file systems as its own, as in most containers.
  public var isOverlay: Bool { magic == 0x794c_7630 }

  /// Whether each file has a mode of its own: not on SMB, FAT and exFAT, where options of the mount give the modes.
  public var keepsModes: Bool {
    switch magic {
    case 0x4d44, 0x2011_bab0: false
    default: !isSMB
    }
  }

  /// Whether this is SMB, by one of the numbers of its clients.
  private var isSMB: Bool { magic == 0x517b || magic == 0xff53_4d42 || magic == 0xfe53_4d42 }

  /// Whether this is tmpfs.
  var isMemory: Bool { magic == 0x0102_1994 }

  /// Whether data of a successful write needs no action at close. True on local file systems; on network file systems close(2)
  /// may report write errors.
  public var completesWritesBeforeClose: Bool { isLocal }

  /// Whether the kernel itself serves the file system, from a disk or memory.
  public var isLocal: Bool {
    switch magic {
    // linux/magic.h: ext2 to ext4, tmpfs, btrfs, XFS, F2FS, ZFS, overlayfs, FAT, exFAT, ISO 9660, UDF, HFS+, bcachefs, JFS,
    // ReiserFS, NILFS2, NTFS3, ramfs.
    case 0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0xf2f5_2010, 0x2fc1_2fc1, 0x794c_7630, 0x4d44,
      0x2011_bab0, 0x9660, 0x1501_3346, 0x482b, 0xca45_1a4e, 0x3153_464a, 0x5265_4973, 0x3434,
      0x7366_746e, 0x8584_58f6:
      true
    default: false
    }
  }

  /// Whether the `Birth` distinguishes a file from a removed one that had its inode number: ext2 to ext4, XFS, F2FS. Not btrfs and
  /// tmpfs, which do not reuse these numbers, nor overlayfs, where the birth changes with the first change of a file.
  public var distinguishesFilesByBirth: Bool {
    switch magic {
    case 0xef53, 0x5846_5342, 0xf2f5_2010: true
    default: false
    }
  }

  /// Whether directories may be the roots of subvolumes, each with a device number that another gets once it is deleted. (Btrfs)
  public var hasSubvolumes: Bool { magic == 0x9123_683e }

  /// Whether a write through a mapping updates the file's times, if it is the first to a page since the page's writeback: ext2
  /// to ext4, btrfs, XFS, F2FS. Not tmpfs, which has no `page_mkwrite`.
  public var updatesTimesOfMappedWrites: Bool {
    switch magic {
    case 0xef53, 0x9123_683e, 0x5846_5342, 0xf2f5_2010: true
    default: false
    }
  }
}
