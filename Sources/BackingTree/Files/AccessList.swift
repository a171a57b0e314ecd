import Glibc

/// A POSIX access control list in its extended attribute form (`linux/posix_acl_xattr.h`): a version of four bytes, then entries
/// of eight bytes each. The third byte of an entry holds the permissions: 4 is read, 2 is write, 1 is execute or search.
public enum AccessList {
  /// The attribute of a file's access list.
  public static let attribute = "system.posix_acl_access"
  /// The attribute of the list that entries of a directory inherit.
  public static let defaultAttribute = "system.posix_acl_default"

  /// Whether an attribute holds an access list or a directory's default list.
  public static func areHeld(by attribute: UnsafePointer<CChar>) -> Bool {
    isHeld(by: attribute) || strcmp(attribute, defaultAttribute) == 0
  }

  /// Whether a file has a list that says more than its mode.
  public static func isPresent(in attributes: borrowing ExtendedAttributes) -> Bool {
    attributes.value(attribute, limit: 1 << 16) != nil
  }

  public static func isHeld(by attribute: UnsafePointer<CChar>) -> Bool {
    strcmp(attribute, Self.attribute) == 0
  }

  /// Converts the list of a package's file to the list of its backing directory: search permission follows read permission.
  public static func ofDirectory(_ list: some Sequence<UInt8>) -> [UInt8] {
    var bytes = Array(list)
    for entry in permissions(in: bytes.count) { bytes[entry] = bytes[entry] & ~1 | bytes[entry] >> 2 & 1 }
    return bytes
  }

  /// Converts the list of a package's backing directory to the list of its file: removes all search permissions.
  public static func ofFile(_ list: UnsafeMutableRawBufferPointer) {
    for entry in permissions(in: list.count) { list[entry] &= ~1 }
  }

  /// Where the permissions of each entry are, in a list of so many bytes.
  public static func permissions(in count: Int) -> StrideTo<Int> { stride(from: 4 + 2, to: count - 5, by: 8) }
}
