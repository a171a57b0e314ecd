import CLinux
import Glibc
import SystemPackage
import Testing

@testable import BackingTree

@Suite struct ExtendedAttributesTests {
  /// How a test reaches a file.
  enum Place: CaseIterable {
    case reading, writing, pathDescriptor, nameInDirectory

    /// Calls `body` with the attributes of the file `name`.
    func withAttributes(
      of name: String, in directory: Directory, _ body: (borrowing ExtendedAttributes) throws(Errno) -> Void
    ) throws {
      let flags =
        switch self {
        case .reading, .nameInDirectory: O_RDONLY
        case .writing: O_WRONLY
        case .pathDescriptor: dfs_O_PATH
        }
      let opened = try directory.open(name, flags)
      if self == .nameInDirectory {
        try body(ExtendedAttributes(of: name, in: directory))
      } else {
        try body(ExtendedAttributes(of: opened.rawValue))
      }
    }
  }

  @Test(arguments: Place.allCases)
  func attribute_isSetReadListedAndRemoved(place: Place) throws {
    let temporary = try TemporaryDirectory()
    _ = try temporary.directory.open("file", O_CREAT | O_WRONLY, mode: 0o600)
    let value = Array("value".utf8)
    try place.withAttributes(of: "file", in: temporary.directory) { (attributes) throws(Errno) in
      try value.withUnsafeBytesTyped { (bytes) throws(Errno) in
        try attributes.set("user.test", bytes, flags: CInt(XATTR_CREATE))
      }
      #expect(attributes.value("user.test", limit: 64) == value)
      #expect(try attributes.names().contains(Array("user.test".utf8)))
      #expect(throws: Errno.fileExists) {
        try value.withUnsafeBytesTyped { (bytes) throws(Errno) in
          try attributes.set("user.test", bytes, flags: CInt(XATTR_CREATE))
        }
      }
    }
    #expect(
      ExtendedAttributes(of: "file", in: temporary.directory).value("user.test", limit: 64) == value)
    try place.withAttributes(of: "file", in: temporary.directory) { (attributes) throws(Errno) in
      try attributes.remove("user.test")
      #expect(throws: Errno.noData) {
        _ = try attributes.get("user.test", into: UnsafeMutableRawBufferPointer(start: nil, count: 0))
      }
    }
  }

  @Test func symlink_isNotFollowed() throws {
    let temporary = try TemporaryDirectory()
    _ = try temporary.directory.open("file", O_CREAT | O_WRONLY, mode: 0o600)
    let value = Array("value".utf8)
    try value.withUnsafeBytesTyped { (bytes) throws(Errno) in
      try ExtendedAttributes(of: "file", in: temporary.directory).set("user.test", bytes, flags: 0)
    }
    try #require(symlink("file", temporary.path + "/link") == 0)
    #expect(ExtendedAttributes(of: "link", in: temporary.directory).value("user.test", limit: 64) == nil)
  }

  @Test func closedDescriptor_isRefused() {
    #expect(throws: Errno.noSuchFileOrDirectory) { try ExtendedAttributes(of: 1 << 20).names() }
  }
}
