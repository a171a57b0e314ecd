import CLinux
import Glibc
import Testing

/// What AppleDouble files carry, as extended attributes of their files.
@Suite(.mounting) struct MergedAttributesTests {
  /// An AppleDouble file with a fork.
  static func appleDouble(fork: [UInt8], flags: UInt16 = 0x0400) -> [UInt8] {
    var bytes = TestTree.appleDouble(TestTree.finderInfo(flags))
    let count = UInt32(fork.count)
    bytes.replaceSubrange(46..<50, with: [24, 16, 8, 0].map { UInt8(count >> UInt32($0) & 0xff) })
    return bytes + fork
  }

  private static let fork: [UInt8] = (0..<5000).map { UInt8($0 % 251) }

  private func view(_ options: String) throws -> MountedView {
    try MountedView(options) { root in
      for name in ["a.txt", "own.txt", "large.txt", "plain.txt"] { try put("x", at: "\(root)/\(name)") }
      try put(Self.appleDouble(fork: Self.fork), at: "\(root)/._a.txt")
      try put(Self.appleDouble(fork: []), at: "\(root)/._own.txt")
      _ = setAttribute("user.com.apple.FinderInfo", to: TestTree.finderInfo(0x0010), of: "\(root)/own.txt")
      _ = setAttribute("user.tag", to: Array("mine".utf8), of: "\(root)/own.txt")
      try put(Self.appleDouble(fork: [UInt8](repeating: 7, count: 70_000)), at: "\(root)/._large.txt")
      try put("not AppleDouble", at: "\(root)/._plain.txt")
    }
  }

  private let info = "user.com.apple.FinderInfo"
  private let resourceFork = "user.com.apple.ResourceFork"

  @Test func merge_showsFinderInfoAndResourceFork() throws {
    let view = try view("appledouble=merge")
    #expect(attributeNames(of: view.at("a")).isSuperset(of: [info, resourceFork]))
    #expect(attributeBytes(info, of: view.at("a")) == TestTree.finderInfo(0x0400))
    var buffer = [UInt8](repeating: 0, count: 8192)
    let count = getxattr(view.at("a"), resourceFork, &buffer, buffer.count)
    #expect(count == 5000 && Array(buffer.prefix(5000)) == Self.fork)
    #expect(getxattr(view.at("a"), resourceFork, nil, 0) == 5000)
    #expect(getxattr(view.at("a"), resourceFork, &buffer, 100) == -1 && errno == ERANGE)
    #expect(view.listing() == ["a", "own", "large", "plain"])
  }

  @Test func merge_prefersAttributesOfFileItself() throws {
    let view = try view("appledouble=merge")
    #expect(attributeBytes(info, of: view.at("own")) == TestTree.finderInfo(0x0010))
    #expect(attributeNames(of: view.at("own")) == [info, "user.tag"])
    #expect(setAttribute(info, to: TestTree.finderInfo(0x0001), of: view.at("a")) == nil)
    #expect(attributeBytes(info, of: view.at("a")) == TestTree.finderInfo(0x0001))
    #expect(contents(view.real("._a.txt"))?.count == 5082)
  }

  @Test func merge_omitsForkTooLargeForAttribute() throws {
    let view = try view("appledouble=merge")
    #expect(attributeNames(of: view.at("large")) == [info])
    #expect(getxattr(view.at("large"), resourceFork, nil, 0) == -1 && errno == E2BIG)
    #expect(attributeNames(of: view.at("plain")) == [])
    #expect(attributeBytes(info, of: view.at("plain")) == nil)
  }

  @Test func hide_showsOnlyAttributesOfFileItself() throws {
    let view = try view("appledouble=hide")
    #expect(attributeNames(of: view.at("a")) == [])
    #expect(attributeBytes(info, of: view.at("a")) == nil)
    #expect(attributeNames(of: view.at("own")) == [info, "user.tag"])
  }

  @Test func copyPreservingAttributes_includesMergedOnes() throws {
    let view = try view("appledouble=merge")
    let outcome = view.shell("cp --preserve=xattr large \"$SOURCE/copy\"")
    #expect(outcome.status == 0, "\(outcome.errorText)")
    #expect(attributeBytes(info, of: view.real("copy")) == TestTree.finderInfo(0x0400))
  }
}
