import Glibc
import Testing

/// Clients that stat what they list get the entries with the listing (READDIRPLUS).
@Suite(.mounting) struct ReaddirPlusTests {
  private static let (directories, files) = (20, 20)

  private func view(_ options: String) throws -> MountedView {
    try MountedView(options) { root in
      for directory in 0..<Self.directories {
        for file in 0..<Self.files { try put("x", at: "\(root)/\(directory)/file\(file).txt") }
      }
    }
  }

  private func walk(_ view: MountedView, _ body: String) {
    let outcome = PythonProgram(
      """
      for directory in range(\(Self.directories)):
        for entry in os.scandir(str(directory)): \(body)
      """, in: view.mountPoint
    ).run()
    #expect(outcome.status == 0, "\(outcome.complaint)")
  }

  @Test(arguments: ["", "profile=none"])
  func clientThatStatsWhatItLists_needsNoLookups(options: String) throws {
    let view = try view(options)
    let before = try view.requestCount()
    walk(view, "assert entry.stat().st_size == 1")
    // But for the first directory.
    #expect(try view.requestCount() - before < Self.directories * Self.files / 2)
  }

  @Test func clientThatReadsNamesOnly_getsNoAttributes() throws {
    let view = try view("")
    walk(view, "pass")
    let before = try view.requestCount()
    for directory in 0..<Self.directories {
      for file in 0..<Self.files { #expect(isThere(view.at("\(directory)/file\(file)"))) }
    }
    #expect(try view.requestCount() - before >= Self.directories * Self.files)
  }

  /// An entry from a listing is cached for as long as an entry from a lookup.
  @Test(arguments: ["", "profile=none"]) func entriesFromListing_whenChanged_areInvalidated(options: String) throws {
    let view = try view(options)
    walk(view, "entry.stat()")
    let (shown, other) = options.isEmpty ? ("1/file1", "1/other") : ("1/file1.txt", "1/other.txt")
    #expect(chmod(view.real("1/file1.txt"), 0o600) == 0)
    #expect(eventually { status(view.at(shown))?.st_mode == S_IFREG | 0o600 })
    #expect(rename(view.real("1/file1.txt"), view.real("1/other.txt")) == 0)
    #expect(eventually { !isThere(view.at(shown)) && isThere(view.at(other)) })
    #expect(rename(view.at("2/file2.txt"), view.at("2/other.txt")) == 0)
    #expect(!isThere(view.at("2/file2")) && !isThere(view.at("2/file2.txt")))
    #expect(unlink(view.at("3/file3.txt")) == 0)
    #expect(!isThere(view.at("3/file3")) && !isThere(view.at("3/file3.txt")))
  }
}
