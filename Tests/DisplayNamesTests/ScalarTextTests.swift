import DisplayNames
import Testing

/// A mark after a separator, or U+0600 before it, makes another character of both.
@Suite struct ScalarTextTests {
  @Test(arguments: [
    ("a=b", ["a", "b"]), ("a=\u{301}b", ["a", "\u{301}b"]), ("a\u{600}=b", ["a\u{600}", "b"]),
    ("=\u{338}", ["", "\u{338}"]),
    ("a=b=c", ["a", "b=c"]), ("a", ["a"]), ("", [""]),
  ]) func parts_areThoseBetweenSeparators(text: String, parts: [String]) {
    let found = text.parts(at: "=", maxSplits: 1, omittingEmptySubsequences: false)
    #expect(found.map { Array($0.utf8) } == parts.map { Array($0.utf8) })
  }

  @Test func parts_byDefault_areNotEmpty() {
    #expect("/\u{301}a//b/".parts(at: "/") == ["\u{301}a", "b"])
    #expect("a\r\nb\n".parts(at: "\n") == ["a\r", "b"])
  }

  @Test func beginningAndEnd_areComparedByBytes() {
    #expect("/\u{301}a".begins(with: "/") && "a\u{600}.toml".ends(with: ".toml"))
    #expect(!"e\u{301}".begins(with: "\u{e9}") && !"e\u{301}".ends(with: "\u{e9}"))
    #expect("e\u{301}".begins(with: "e") && !"a".begins(with: "ab") && !"b".ends(with: "ab"))
  }
}
