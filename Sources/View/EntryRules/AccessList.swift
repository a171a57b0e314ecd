import BackingTree
import Glibc

/// A POSIX access control list in its extended attribute form (`linux/posix_acl_xattr.h`): a version of four bytes, then entries
/// of eight bytes each. The third byte of an entry holds the permissions: 4 is read, 2 is write, 1 is execute or search.
enum AccessList {
  static let attribute = ExtendedAttributes.accessList

  /// Whether an attribute holds an access list or a directory's default list.
  static func areHeld(by attribute: UnsafePointer<CChar>) -> Bool {
    isHeld(by: attribute) || strcmp(attribute, "system.posix_acl_default") == 0
  }

  /// Whether a file has a list that says more than its mode.
  static func isPresent(in attributes: borrowing ExtendedAttributes) -> Bool {
    attributes.value(attribute, limit: 1 << 16) != nil
  }

  static func isHeld(by attribute: UnsafePointer<CChar>) -> Bool { strcmp(attribute, Self.attribute) == 0 }

  /// Converts the list of a package's file to the list of its backing directory: search permission follows read permission.
  static func ofDirectory(_ list: some Sequence<UInt8>) -> [UInt8] {
    var bytes = Array(list)
    for entry in entries(of: bytes.count) { bytes[entry] = bytes[entry] & ~1 | bytes[entry] >> 2 & 1 }
    return bytes
  }

  /// Converts the list of a package's backing directory to the list of its file: removes all search permissions.
  static func ofFile(_ list: UnsafeMutableRawBufferPointer) {
    for entry in entries(of: list.count) { list[entry] &= ~1 }
  }

  private static func entries(of count: Int) -> StrideTo<Int> { stride(from: 4 + 2, to: count - 5, by: 8) }
}
