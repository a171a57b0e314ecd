import DisplayNames
import MacMetadata
import Testing

@testable import View

/// Where in SOURCE the target of an alias is looked for.
@Suite struct AliasPlacesTests {
  private func candidates(
    _ path: String, volume: String = "", source: String = "tree", from directory: String = ""
  ) -> [String] {
    func names(_ path: String) -> [[UInt8]] { path.split(separator: "/").map { Array($0.utf8) } }
    guard let target = AliasTarget(volume: names(volume), path: names(path)) else { return [] }
    return AliasPlaces.candidates(
      for: target, source: Name(source), directory: names(directory).map { Name($0) }
    ).map { $0.map(\.description).joined(separator: "/") }
  }

  @Test func source_mayBeTheMacOrTheVolume() {
    #expect(candidates("Users/anna/a.txt") == ["Users/anna/a.txt"])
    #expect(
      candidates("Photos/a.jpg", volume: "Volumes/Disk") == ["Volumes/Disk/Photos/a.jpg", "Photos/a.jpg"])
    #expect(
      candidates("Volumes/Disk/Photos/a.jpg", volume: "Volumes/Disk") == [
        "Volumes/Disk/Photos/a.jpg", "Photos/a.jpg",
      ])
  }

  @Test func source_isDirectoryOfThatName() {
    #expect(candidates("Users/anna/b/a.txt", source: "anna") == ["Users/anna/b/a.txt", "b/a.txt"])
    #expect(candidates("Users/Zoe\u{308}/a.txt", source: "Zo\u{eb}").last == "a.txt")
  }

  @Test func source_isDirectoryWithSharedDirectory() {
    #expect(candidates("Users/anna/b/c/a.txt", from: "b/d") == ["Users/anna/b/c/a.txt", "b/c/a.txt"])
    #expect(candidates("Users/anna/b/c/a.txt", from: "c") == ["Users/anna/b/c/a.txt", "c/a.txt"])
    // The shared directory is that below SOURCE.
    #expect(candidates("Users/anna/b/c/a.txt", from: "x/c") == ["Users/anna/b/c/a.txt"])
  }

  @Test func endOfPathAlone_isNoReason() {
    #expect(candidates("Users/anna/a.txt", from: "d") == ["Users/anna/a.txt"])
  }
}
