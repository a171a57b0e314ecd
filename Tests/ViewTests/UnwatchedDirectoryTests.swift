import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage
import Testing

@testable import View

/// Directories of which the kernel tells nothing: their times say whether they have changed.
@Suite struct UnwatchedDirectoryTests {
  private let root: String
  private let view: View

  init() throws {
    var template = Array("/tmp/displayfs-unwatched-XXXXXX".utf8CString)
    let root = String(cString: try #require(mkdtemp(&template)))
    self.root = root
    let source = Descriptor(adopting: try systemCall { open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    view = try View(source: source, options: ViewOptions(), logger: Logger(label: "test"))
  }

  private func make(_ name: String) { close(open("\(root)/\(name)", O_WRONLY | O_CREAT, 0o644)) }

  private func unwatched() -> DirectoryView {
    DirectoryView(
      node: NodeTable.root, handle: view.rootHandle, inspector: view.inspector,
      site: Site(place: [], rules: DirectoryRules()), watch: nil, recheck: nil, changes: view.changes,
      ownChanges: view.ownChanges, listings: Tally(), cached: view.cached)
  }

  private func holds(_ name: Name, _ directory: DirectoryView) throws -> Bool {
    try directory.withCurrent { (projection) throws(Errno) in projection.slot(realName: name.bytes.span) != nil }
  }

  private func eventuallyHolds(_ name: Name, _ directory: DirectoryView) throws -> Bool {
    for _ in 0..<3000 {
      if try holds(name, directory) { return true }
      usleep(10_000)
    }
    return false
  }

  private func cleanUp() {
    for name in ["a.txt", "mine.txt", "theirs.txt"] { unlink("\(root)/\(name)") }
    rmdir(root)
  }

  @Test func whatOthersChangeBesideAChangeOfTheMountIsNotLost() throws {
    defer { cleanUp() }
    // Nothing else gives a reason to look again.
    let longAgo = [timespec(tv_sec: 946_684_800, tv_nsec: 0), timespec(tv_sec: 946_684_800, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, root, longAgo, 0) == 0)
    let directory = unwatched()
    #expect(try !holds("mine.txt", directory))
    try directory.changing { (_) throws(Errno) in
      make("mine.txt")
      make("theirs.txt")
      directory.reconcile("mine.txt")
    }
    #expect(try holds("mine.txt", directory))
    #expect(try eventuallyHolds("theirs.txt", directory))
  }

  /// The clock of a file system may go on only every few milliseconds.
  @Test func whatChangesRightAfterALookIsNotLost() throws {
    defer { cleanUp() }
    let directory = unwatched()
    #expect(try !holds("a.txt", directory))
    make("a.txt")
    #expect(try eventuallyHolds("a.txt", directory))
  }
}
