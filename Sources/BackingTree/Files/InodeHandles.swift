import CLinux
import Glibc
import SystemPackage

/// What a local file system knows a file by: no other file ever has both numbers.
public struct InodeHandle: Hashable, Sendable {
  public let inode: UInt64
  /// Nil where it is not known.
  public let generation: UInt32?

  public init(inode: UInt64, generation: UInt32?) {
    self.inode = inode
    self.generation = generation
  }
}

/// The files of one file system by their inode handles. (name_to_handle_at(2), open_by_handle_at(2))
///
/// The kernel's file handles are opaque, but those of the common local file systems hold the inode number and the generation at
/// known places (include/linux/exportfs.h, mm/shmem.c, fs/btrfs/export.h of Linux). Handles of other file systems hold more
/// than fits into a nodeid, or other things by the same type: that of CephFS, 1, is for an inode number of 64 bits.
public final class InodeHandles: Sendable {
  private enum Format {
    /// u32 inode, u32 generation. (FILEID_INO32_GEN: ext2 to ext4, F2FS, XFS with inode32)
    case inode32
    /// u64 inode, u32 generation. (FILEID_INO64_GEN: XFS)
    case inode64
    /// u32 generation, u64 inode. (tmpfs)
    case generationFirst
    /// u64 inode, u64 subvolume, u32 generation. (FILEID_BTRFS_WITHOUT_PARENT)
    case btrfs

    init?(_ handle: dfs_handle, isMemory: Bool) {
      switch (handle.type, handle.length) {
      case (0x01, 8): self = .inode32
      case (0x81, 12): self = .inode64
      case (0x01, 12) where isMemory: self = .generationFirst
      case (0x4d, 20): self = .btrfs
      default: return nil
      }
    }
  }

  /// Any file of the file system, open for reading, as open_by_handle_at(2) requires.
  private let root: Descriptor
  private let rootHandle: dfs_handle
  private let format: Format

  /// Nil where the file system has no handles, where they hold other things, or where the process may not open files by them
  /// (CAP_DAC_READ_SEARCH).
  public init?(of directory: Directory) {
    var raw = dfs_handle()
    guard let root = try? directory.openForReading() else { return nil }
    let kind = FileSystemKind(of: root.rawValue)
    guard kind.isLocal, dfs_handle_of(root.rawValue, "", &raw) == 0,
      let format = Format(raw, isMemory: kind.isMemory),
      let status = try? fileStatus(root.rawValue)
    else { return nil }
    self.root = root
    rootHandle = raw
    self.format = format
    guard let handle = decoded(raw), handle.inode == UInt64(status.st_ino), let again = try? open(handle),
      let same = try? fileStatus(again.rawValue), FileIdentity(same) == FileIdentity(status)
    else { return nil }
  }

  /// The handle of an entry, or of the directory itself where the name is empty.
  public func handle(of name: UnsafePointer<CChar>, in directory: Directory) throws(Errno) -> InodeHandle {
    var raw = dfs_handle()
    try systemCall { dfs_handle_of(directory.descriptor, name, &raw) }
    guard raw.type == rootHandle.type, raw.length == rootHandle.length, let handle = decoded(raw) else {
      throw .notSupported
    }
    return handle
  }

  /// Opens a file as a reference. (O_PATH)
  ///
  /// - Throws: ESTALE when the file is gone.
  public func open(_ handle: InodeHandle) throws(Errno) -> Descriptor {
    var raw = try encoded(handle)
    return Descriptor(
      adopting: try systemCall { dfs_open_handle(root.rawValue, &raw, dfs_O_PATH) })
  }

  // MARK: Formats

  private func decoded(_ raw: dfs_handle) -> InodeHandle? {
    withUnsafeBytes(of: raw.bytes) { bytes in
      func word(_ offset: Int) -> UInt32 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self) }
      func long(_ offset: Int) -> UInt64 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
      switch format {
      case .inode32: return InodeHandle(inode: UInt64(word(0)), generation: word(4))
      case .inode64: return InodeHandle(inode: long(0), generation: word(8))
      case .generationFirst: return InodeHandle(inode: long(4), generation: word(0))
      case .btrfs:
        guard
          long(8) == withUnsafeBytes(of: rootHandle.bytes, { $0.load(fromByteOffset: 8, as: UInt64.self) })
        else {
          return nil
        }
        return InodeHandle(inode: long(0), generation: word(16))
      }
    }
  }

  /// A generation by which a file is opened that has an unknown one.
  private func anyGeneration(of inode: UInt64) throws(Errno) -> UInt32 {
    switch format {
    // 0 stands for any.
    case .inode32, .btrfs: return 0
    case .inode64:
      var generation: UInt32 = 0
      try systemCall { dfs_xfs_generation(root.rawValue, inode, &generation) }
      return generation
    case .generationFirst: throw Errno(rawValue: ESTALE)
    }
  }

  private func encoded(_ handle: InodeHandle) throws(Errno) -> dfs_handle {
    var raw = rootHandle
    let generation =
      if let known = handle.generation { known } else { try anyGeneration(of: handle.inode) }
    withUnsafeMutableBytes(of: &raw.bytes) { bytes in
      func store(_ value: some BitwiseCopyable, _ offset: Int) {
        bytes.storeBytes(of: value, toByteOffset: offset, as: type(of: value))
      }
      switch format {
      case .inode32:
        store(UInt32(truncatingIfNeeded: handle.inode), 0)
        store(generation, 4)
      case .inode64:
        store(handle.inode, 0)
        store(generation, 8)
      case .generationFirst:
        store(generation, 0)
        store(handle.inode, 4)
      case .btrfs:
        store(handle.inode, 0)
        store(generation, 16)
      }
    }
    return raw
  }
}
