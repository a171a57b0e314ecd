import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import View

/// Display names for other programs, without a mount.
@Suite struct DisplayNameTests {
  /// A Macintosh volume with one document.
  private func withVolume(_ body: (FilePath) throws -> Void) throws {
    var template = Array("/tmp/displayfs-names-XXXXXX".utf8CString)
    let root = try FilePath(String(cString: try #require(mkdtemp(&template)))).resolvingSymlinks()
    let directories = [
      "System", "System/Library", "System/Library/CoreServices", "Users", "Users/anna", "Users/anna/Music",
    ]
    let files = ["Users/.localized", "Users/anna/Music/.localized", "Users/anna/Music/song.mp3"]
    defer {
      for path in (directories + files).sorted().reversed() { remove("\(root)/\(path)") }
      rmdir("\(root)")
    }
    for path in directories { mkdir("\(root)/\(path)", 0o755) }
    for path in files { close(open("\(root)/\(path)", O_WRONLY | O_CREAT, 0o644)) }
    try body(root)
  }

  private var german: ViewOptions {
    var options = ViewOptions()
    options.languages = [LanguageTag("de")!]
    return options
  }

  @Test func displayName_followsSurroundingVolume() throws {
    try withVolume { root in
      let users = try DisplayName.of(root.appending("Users"), options: german)
      #expect(users == "Benutzer")
      let song = try DisplayName.of(root.appending("Users/anna/Music/song.mp3"), options: german)
      #expect(song == "song")
    }
  }

  @Test func componentsToDisplay_leadToEntry() throws {
    try withVolume { root in
      let names = try DisplayName.componentsToDisplay(
        of: root.appending("Users/anna/Music/song.mp3"), options: german)
      #expect(names == root.components.map { Name($0.bytes) } + ["Benutzer", "anna", "Musik", "song"])
    }
  }

  @Test func displayName_ofAbsentEntry_throws() throws {
    try withVolume { root in
      #expect(throws: ViewedPath.Failure.self) { try DisplayName.of(root.appending("Users/absent")) }
    }
  }
}
