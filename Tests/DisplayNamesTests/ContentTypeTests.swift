import DisplayNames
import Testing

@Suite struct ContentTypeTests {
  private func globs(_ table: String) -> MIMEGlobs {
    var globs = MIMEGlobs()
    globs.add(Array(table.utf8))
    return globs
  }

  @Test func name_hasTypeOfHeaviestThenLongestPattern() {
    let globs = globs(
      """
      # comment
      50:application/gzip:*.gz
      50:application/x-compressed-tar:*.tar.gz
      50:text/x-csrc:*.c
      50:text/x-c++src:*.C:cs
      50:text/x-readme:README*
      10:text/x-makefile:makefile
      60:image/special:*.special.png
      50:image/png:*.png
      80:text/x-vcs:*.x[0-9]
      broken
      50:none:*.none
      50:x/y
      """)
    for (name, type) in [
      ("a.gz", "application/gzip"), ("a.tar.gz", "application/x-compressed-tar"),
      ("A.TAR.GZ", "application/x-compressed-tar"),
      ("a.c", "text/x-csrc"), ("a.C", "text/x-c++src"), ("README.txt", "text/x-readme"),
      ("Makefile", "text/x-makefile"),
      ("a.special.png", "image/special"), ("a.png", "image/png"), ("a.x7", "text/x-vcs"), ("a.xy", nil),
      ("gz", nil),
      ("a.none", nil), ("", nil),
    ] {
      #expect(globs.type(of: Name(name)) == type, "\(name)")
    }
    #expect(globs.type(of: Name([0xff, 0x2e, 0x67, 0x7a])) == "application/gzip")
  }

  @Test func identifier_isDeclaredElseOfMIMETypeElseOfItsKind() {
    let globs = globs(
      "50:application/pdf:*.pdf\n50:image/x-odd:*.odd\n50:application/x-odd:*.bin\n50:text/plain:*.txt")
    func type(_ name: Name, _ kind: EntryKind = .file, declared: String? = nil) -> [String] {
      let type = ContentType.of(name, kind, declared: declared, packageTypes: .builtIn, globs: globs)
      return [type.identifier, type.mimeType]
    }
    #expect(type("a.pdf") == ["com.adobe.pdf", "application/pdf"])
    #expect(type("a.pdf", declared: "org.example.pdf") == ["org.example.pdf", "application/pdf"])
    #expect(type("a.txt") == ["public.plain-text", "text/plain"])
    #expect(type("a.odd") == ["public.image", "image/x-odd"])
    #expect(type("a.bin") == ["public.data", "application/x-odd"])
    #expect(type("a") == ["public.data", "application/octet-stream"])
    #expect(type("a.rtfd", .package) == ["com.apple.rtfd", "application/x-displayfs-package"])
    #expect(type("folder.pdf", .directory) == ["public.folder", "inode/directory"])
    #expect(type("link.pdf", .symlink) == ["public.symlink", "inode/symlink"])
  }
}
