import DisplayNames
import Glibc
import SystemPackage
import Testing
import View
import ViewedTree

// The code of the article Sources/View/View.docc/NamesInPrograms.md, word for word. This target has no access to declarations of
// `package` level, as other packages have none.

/// Reads names from a Macintosh volume, in German.
func readNames(of volume: FilePath) throws -> (listed: [Name], song: Explanation) {
  var options = ViewOptions.fromEnvironment
  options.languages = try LanguageList.parse(option: "de")

  // What a file manager lists of a home.
  let home = try ViewedPath(volume.appending("Users/anna"), options: options)
  let listed = try home.entries().filter { !$0.isHidden }.map(\.displayName).sorted()

  // Where a displayed path leads, and why it has that name.
  let song = try ViewedPath(volume.appending("Benutzer/anna/Musik/song"), options: options).explanation()
  print("\(song.displayName) is \(song.realPath): \(song.reason)")
  return (listed, song)
}

/// The examples for users of the library.
@Suite struct ExampleTests {
  @Test func exampleOfArticle_onAVolume_readsNames() throws {
    try withMacintoshVolume { root in
      let (listed, song) = try readNames(of: root)
      #expect(listed == ["Musik"])
      #expect(song.displayName == "song")
      #expect(song.realPath == root.appending("Users/anna/Music/song.mp3"))
      #expect(song.kind == .file && !song.isHidden && !song.isContested)
      #expect(song.reason == "Its extension is hidden.")
    }
  }

  @Test func article_showsTheCodeOfThisFile() throws {
    let root = FilePath(#filePath).removingLastComponent().removingLastComponent().removingLastComponent()
    let article = try text(root.appending("Sources/View/View.docc/NamesInPrograms.md"))
    let example = try #require(article.split(separator: "```swift\n").last?.split(separator: "```").first)
    #expect(try text(FilePath(#filePath)).contains(example))
    #expect(example.contains("func readNames"))
  }

  private func text(_ path: FilePath) throws -> String {
    let file = try FileDescriptor.open(path, .readOnly)
    return try file.closeAfter {
      String(
        decoding: try [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, count in
          count = try file.read(into: UnsafeMutableRawBufferPointer(buffer))
        }, as: UTF8.self)
    }
  }

  @Test func entries_ofFile_throwWhatAndWhy() throws {
    try withMacintoshVolume { root in
      let path = root.appending("Users/anna/Music/song.mp3")
      let song = try ViewedPath(path, options: ViewOptions())
      let failure = try #require(throws: ViewedPath.Failure.self) { try song.entries() }
      #expect("\(failure)" == "\(path): Not a directory")
      #expect(throws: ViewedPath.Failure.self) { try ViewedPath(root.appending("absent")) }
      let outside = try #require(throws: ViewedPath.Failure.self) {
        try ViewedPath(root.appending("System"), source: root.appending("Users"))
      }
      guard case .outside(_, source: root.appending("Users")) = outside else { throw outside }
    }
  }
}
