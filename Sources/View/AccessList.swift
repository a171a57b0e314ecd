import Glibc

/// A POSIX access list as the extended attribute that holds it has it (`linux/posix_acl_xattr.h`): a version of four bytes, then
/// entries of eight, whose third is the permissions, 4 to read, 2 to write, 1 to execute or search.
enum AccessList {
  static let attribute = "system.posix_acl_access"

  /// Whether an attribute holds an access list, be it one for what is made in a directory.
  static func areHeld(by attribute: UnsafePointer<CChar>) -> Bool {
    isHeld(by: attribute) || strcmp(attribute, "system.posix_acl_default") == 0
  }

  static func isHeld(by attribute: UnsafePointer<CChar>) -> Bool { strcmp(attribute, Self.attribute) == 0 }

  /// The list of a directory for those who get the list of a file: to read it takes the permission to search, too.
  static func ofDirectory(_ list: some Sequence<UInt8>) -> [UInt8] {
    var bytes = Array(list)
    for entry in entries(of: bytes.count) { bytes[entry] = bytes[entry] & ~1 | bytes[entry] >> 2 & 1 }
    return bytes
  }

  /// The list of a file for those who get the list of a directory.
  static func ofFile(_ list: UnsafeMutableRawBufferPointer) {
    for entry in entries(of: list.count) { list[entry] &= ~1 }
  }

  private static func entries(of count: Int) -> StrideTo<Int> { stride(from: 4 + 2, to: count - 5, by: 8) }
}
