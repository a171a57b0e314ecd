import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// A large directory is read while the watch on it begins. No event reports a change made in that time.
@Suite struct EntryReadAheadTests {
  private let tree: ViewedTree
  private let names: Set<String>
  private var directory: Directory { tree.view.source.root.directory }

  init() throws {
    tree = try ViewedTree()
    let filling = String(repeating: "x", count: 200)
    names = Set((0..<1500).map { "\($0)-\(filling).txt" })
    for name in names { tree.make(name) }
  }

  private func entries() throws -> Set<String> {
    let ahead = try #require(EntriesAhead(of: directory))
    let entries = try #require(ahead.entries(ifTimesMatch: try directory.status()))
    var found: Set<String> = []
    try entries.forEach { entry in
      #expect(found.insert(String(decoding: entry.name, as: UTF8.self)).inserted)
    }
    return found
  }

  private func waitUntilTimesAreSettled() { sleep(4) }

  @Test func readAhead_givesEntriesOfDirectory() throws {
    waitUntilTimesAreSettled()
    #expect(try entries() == names)
    var shown: Set<String> = []
    let open = try tree.view.openDirectory(NodeTable.root, client: .daemon)
    try tree.view.list(open, from: 2, size: 1 << 20) { entry in
      shown.insert(String(decoding: entry.name, as: UTF8.self))
      return true
    }
    #expect(shown == Set(names.map { String($0.dropLast(4)) }))
  }

  @Test func readAhead_whenDirectoryChangedBeforeWatch_isDiscarded() throws {
    waitUntilTimesAreSettled()
    let ahead = try #require(EntriesAhead(of: directory))
    #expect(rename(tree.path(names.first!), tree.path("other.txt")) == 0)
    #expect(ahead.entries(ifTimesMatch: try directory.status()) == nil)
  }

  @Test func readAhead_ofRecentlyChangedDirectory_isSkipped() throws {
    // The modification time may be set far back, so it does not count.
    let longAgo = [timespec(tv_sec: 946_684_800, tv_nsec: 0), timespec(tv_sec: 946_684_800, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, tree.root, longAgo, 0) == 0)
    #expect(EntriesAhead(of: directory) == nil)
  }

  @Test func readAhead_ofSmallDirectory_isSkipped() throws {
    let small = try ViewedTree("a.txt")
    waitUntilTimesAreSettled()
    #expect(EntriesAhead(of: small.view.source.root.directory) == nil)
  }
}
