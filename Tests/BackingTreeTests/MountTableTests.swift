import SystemPackage
import Testing

@testable import BackingTree

@Suite struct MountTableTests {
  /// A mark after a comma makes another character of both.
  @Test func lines_areParsedByBytes() throws {
    let text =
      "36 35 0:52 / /mnt/a\\040b\\134040\u{301} rw,\u{301}x,noatime shared:1 - fuse.displayfs /src\\011\u{301} "
      + "rw,user_id=7,\u{301}y\n"
    let line = try #require(MountTable.lines(Array(text.utf8)).first)
    #expect(line.id == 36 && line.parent == 35 && line.device == "52" && line.isView)
    #expect(line.mountPoint.bytes == Array("/mnt/a b\\040\u{301}".utf8))
    #expect(line.source.bytes == Array("/src\t\u{301}".utf8))
    #expect(line.options == ["rw", "\u{301}x", "noatime", "user_id=7", "\u{301}y"])
    #expect(line.user == 7)
  }

  @Test(arguments: [#"/+12"#, #"/\+12"#, #"/\89a"#, #"/\04"#, #"/\"#])
  func backslashWithoutOctalDigits_isItself(path: String) throws {
    let line = try #require(MountTable.lines(Array("1 0 0:5 / \(path) rw - tmpfs none rw".utf8)).first)
    #expect(line.mountPoint.bytes == Array(path.utf8))
  }
}
