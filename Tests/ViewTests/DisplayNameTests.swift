import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import View
import ViewedTree

/// Display names for other programs, without a mount.
@Suite struct DisplayNameTests {
  private var german: ViewOptions {
    var options = ViewOptions()
    options.languages = [LanguageTag("de")!]
    return options
  }

  @Test func displayName_followsSurroundingVolume() throws {
    try withMacintoshVolume { root in
      let users = try DisplayName.of(root.appending("Users"), options: german)
      #expect(users == "Benutzer")
      let song = try DisplayName.of(root.appending("Users/anna/Music/song.mp3"), options: german)
      #expect(song == "song")
    }
  }

  @Test func componentsToDisplay_leadToEntry() throws {
    try withMacintoshVolume { root in
      let names = try DisplayName.componentsToDisplay(
        of: root.appending("Users/anna/Music/song.mp3"), options: german)
      #expect(names == root.components.map { Name($0.bytes) } + ["Benutzer", "anna", "Musik", "song"])
    }
  }

  @Test func displayName_ofAbsentEntry_throws() throws {
    try withMacintoshVolume { root in
      #expect(throws: ViewedPath.Failure.self) { try DisplayName.of(root.appending("Users/absent")) }
    }
  }
}
