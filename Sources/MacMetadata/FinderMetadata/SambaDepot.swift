/// The location of a file's streams with Samba's `streams_depot`: one directory for each inode, below a directory at the root of
/// the share (Samba's "vfs_streams_depot.c").
public enum SambaDepot {
  /// The depot directory, at the root of the share.
  public static let directory = ".streams"
  /// The extended attribute of a file with streams in the depot. Without it, the streams there belong to an earlier file with the
  /// same inode number.
  public static let marker = "user.SAMBA_STREAMS"
  /// The value that Samba sets it to.
  public static let mark = [UInt8(ascii: "1")]
  /// The stream that holds the Finder info.
  public static let finderInfo = stream("AFP_AfpInfo")

  /// The file of a stream, in the directory of its file.
  public static func stream(_ name: String) -> String { ":\(name):$DATA" }

  /// The streams that hold what the Finder stores for an item.
  public static let itemStreams =
    [finderInfo] + DesktopAttribute.allCases.flatMap(\.macNames).map(stream)

  /// The directory of a file's streams, as a path relative to the root of the share.
  ///
  /// - Parameters:
  ///   - device: `st_dev` of the file.
  ///   - inode: `st_ino` of the file.
  public static func path(device: UInt64, inode: UInt64) -> [UInt8] {
    let key = [device, inode].flatMap { number in
      (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) }
    }
    let hash = hash(key)
    let name = key.map(hexadecimal).joined()
    let parts = [
      directory, hexadecimal(UInt8(truncatingIfNeeded: hash)),
      hexadecimal(UInt8(truncatingIfNeeded: hash >> 8)), name,
    ]
    return Array(parts.joined(separator: "/").utf8)
  }

  /// The hash function of Samba's "trivial database" (tdb).
  private static func hash(_ key: [UInt8]) -> UInt32 {
    var value = UInt32(0x238f_13af) &* UInt32(key.count)
    for (index, byte) in key.enumerated() { value = value &+ UInt32(byte) << UInt32(index * 5 % 24) }
    return 1_103_515_243 &* value &+ 12345
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
  }
}
