/// Where Samba keeps the streams of a file with `streams_depot`: in a directory at the root of the share, one for each
/// inode (Samba's "vfs_streams_depot.c").
public enum SambaDepot {
  /// The depot, in the root of the share.
  public static let directory = ".streams"
  /// The extended attribute of a file that has streams there. Without it what is there belonged to an earlier file with
  /// the same inode number.
  public static let marker = "user.SAMBA_STREAMS"
  /// The value that Samba gives it.
  public static let mark = [UInt8(ascii: "1")]
  /// The stream that holds the Finder info.
  public static let finderInfo = ":AFP_AfpInfo:$DATA"

  /// The directory with the streams of a file, as a path from the root of the share.
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

  /// That of Samba's "trivial database".
  private static func hash(_ key: [UInt8]) -> UInt32 {
    var value = UInt32(0x238f_13af) &* UInt32(key.count)
    for (index, byte) in key.enumerated() { value = value &+ UInt32(byte) << UInt32(index * 5 % 24) }
    return 1_103_515_243 &* value &+ 12345
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
  }
}
