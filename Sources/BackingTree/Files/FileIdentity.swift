import Glibc

/// The identity of a file: its device and its inode number.
public struct FileIdentity: Hashable, Sendable {
  public let device: UInt64
  public let inode: UInt64

  @inlinable public init(device: UInt64, inode: UInt64) {
    self.device = device
    self.inode = inode
  }

  public init(_ status: stat) { self.init(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)) }

  /// For sets and dictionaries, which would otherwise take SipHash.
  public func _rawHashValue(seed: Int) -> Int {
    KeyedHash.hash(inode, device ^ UInt64(bitPattern: Int64(seed)))
  }
}

/// The type bits of a mode (`S_IFMT`), as an enumeration.
public enum FileType: UInt8, Sendable {
  case unknown, fifo, characterDevice, directory, blockDevice, regular, symlink, socket

  @inlinable public init(mode: mode_t) {
    // `d_type` is the same number without the bits to its right. (IFTODT)
    self.init(direntType: UInt8(truncatingIfNeeded: mode >> 12 & 0xf))
  }

  /// From `d_type` of getdents64. File systems that do not store the type report `unknown`.
  @inlinable public init(direntType: UInt8) {
    switch direntType {
    case 1: self = .fifo
    case 2: self = .characterDevice
    case 4: self = .directory
    case 6: self = .blockDevice
    case 8: self = .regular
    case 10: self = .symlink
    case 12: self = .socket
    default: self = .unknown
    }
  }

  /// The `d_type` of a directory entry.
  public var direntType: UInt8 { UInt8(modeBits >> 12) }

  /// The bits for `st_mode`.
  public var modeBits: mode_t {
    switch self {
    case .unknown: 0
    case .fifo: S_IFIFO
    case .characterDevice: S_IFCHR
    case .directory: S_IFDIR
    case .blockDevice: S_IFBLK
    case .regular: S_IFREG
    case .symlink: S_IFLNK
    case .socket: S_IFSOCK
    }
  }
}
