import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// Directories of which the kernel reports no events: their times show whether they have changed.
@Suite struct UnwatchedDirectoryTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree() }

  private func unwatched() -> DirectoryView {
    DirectoryView(
      of: WatchedDirectory(unwatched: view.source.root, NodeTable.root, queue: view.changes.queue),
      view.source.root,
      inspector: view.inspector, site: Site(role: [], rules: DirectoryRules()), watch: nil, recheck: nil,
      changeQueue: view.changes.queue,
      ownChanges: view.changes.own, listings: Tally(), cached: view.cached, nodes: view.nodes)
  }

  private func holds(_ name: Name, _ directory: DirectoryView) throws -> Bool {
    try directory.withCurrent { (projection) throws(Errno) in
      projection.slot(realName: name.bytes.span) != nil
    }
  }

  private func eventuallyHolds(_ name: Name, _ directory: DirectoryView) throws -> Bool {
    for _ in 0..<3000 {
      if try holds(name, directory) { return true }
      usleep(10_000)
    }
    return false
  }

  @Test func changeInBackingTree_duringChangeThroughMount_isFound() throws {
    // Old times: nothing else makes the view read the directory again.
    let longAgo = [timespec(tv_sec: 946_684_800, tv_nsec: 0), timespec(tv_sec: 946_684_800, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, tree.root, longAgo, 0) == 0)
    let directory = unwatched()
    #expect(try !holds("mine.txt", directory))
    try directory.changing { (_) throws(Errno) in
      tree.make("mine.txt")
      tree.make("theirs.txt")
      directory.reconcile("mine.txt")
    }
    #expect(try holds("mine.txt", directory))
    #expect(try eventuallyHolds("theirs.txt", directory))
  }

  /// The clock of a file system may advance only every few milliseconds.
  @Test func change_rightAfterRead_isFound() throws {
    let directory = unwatched()
    #expect(try !holds("a.txt", directory))
    tree.make("a.txt")
    #expect(try eventuallyHolds("a.txt", directory))
  }
}
