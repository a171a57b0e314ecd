/// The nodeid of a file in an exported view. It stands for the same file after the kernel has forgotten the node and after the
/// daemon was restarted, and for no other file: it holds the inode number and the generation. A file system that reuses the
/// number gives it another generation.
///
/// The kernel makes NFS file handles of it. (open_by_handle_at(2))
/// ```
///   kind 0...2, below 2^29:   generation 32 | inode 29           | 0 | kind 2
///   kind 0...2, below 2^45:   generation 16 | inode 45           | 1 | kind 2
///   temporary:                number 62                              | 3
/// ```
package struct DurableNodeID: Hashable, Sendable {
  /// Never 0 or 1, since no file has the inode number 0.
  package let rawValue: UInt64

  private static let isWide: UInt64 = 4
  private static let temporary: UInt64 = 3

  /// Nil for an inode number from 2^45, which leaves no room for a generation.
  init?(inode: UInt64, generation: UInt32, nodeKind: NodeKind) {
    let kind = UInt64(nodeKind.rawValue)
    if inode < 1 << 29 {
      rawValue = UInt64(generation) << 32 | inode << 3 | kind
    } else if inode < 1 << 45 {
      rawValue = UInt64(generation) << 48 | inode << 3 | Self.isWide | kind
    } else {
      return nil
    }
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// The nodeid of a file that has no durable one: it lies on another file system than SOURCE. It is good for as long as the
  /// kernel remembers the node.
  static func temporary(_ number: UInt64) -> DurableNodeID {
    DurableNodeID(rawValue: number << 2 | temporary)
  }

  /// Nil for a temporary one.
  var nodeKind: NodeKind? { NodeKind(rawValue: UInt8(rawValue & 3)) }

  var inode: UInt64 {
    rawValue & Self.isWide == 0 ? rawValue >> 3 & 0x1fff_ffff : rawValue >> 3 & 0x1fff_ffff_ffff
  }

  /// Nil where only its lower half is known.
  var generation: UInt32? { rawValue & Self.isWide == 0 ? UInt32(rawValue >> 32) : nil }
}
