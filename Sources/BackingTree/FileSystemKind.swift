import CFuse

/// What kind of file system something lies on. (`f_type` of statfs(2))
public struct FileSystemKind: Equatable, Sendable {
  private let magic: UInt32

  public init(of descriptor: CInt) { magic = dfs_file_system_magic(descriptor) }

  /// One that shows other file systems' files as its own, as in most containers.
  public var isOverlay: Bool { magic == 0x794c_7630 }
}
