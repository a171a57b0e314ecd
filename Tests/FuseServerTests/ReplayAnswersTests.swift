import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage
import Testing

@testable import FuseServer
@testable import View

/// The kernel moves, or removes, what it keeps of a name when a change is replayed: that must be what it was told for it.
@Suite struct ReplayAnswersTests {
  private let root: String
  private let view: View

  init() throws {
    var template = Array("/tmp/displayfs-replay-XXXXXX".utf8CString)
    let root = String(cString: try #require(mkdtemp(&template)))
    self.root = root
    close(open("\(root)/new", O_WRONLY | O_CREAT, 0o644))
    let source = Descriptor(adopting: try systemCall { open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    view = try View(source: source, options: ViewOptions(), logger: Logger(label: "test"))
  }

  private func item(_ name: Name) throws -> ListedItem {
    let entry = try "new".withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    return ListedItem(
      directory: NodeTable.root, name: name, realName: "new", identity: FileIdentity(entry.attributes),
      facet: .plain, type: .regular)
  }

  private func cleanUp() {
    unlink("\(root)/new")
    rmdir(root)
  }

  @Test func aNameThatTheKernelDidNotAskForIsNotMoved() throws {
    defer { cleanUp() }
    let answers = ReplayAnswers(view: view)
    let (old, new) = (try item("old"), try item("new"))
    for _ in 0..<2 {
      answers.step = .renaming(from: old, to: new)
      #expect(throws: Errno(rawValue: ESTALE)) { try answers.rename(NodeTable.root, "old") }
      #expect(try FileIdentity(answers.lookup(NodeTable.root, "old").attributes) == new.identity)
      try answers.rename(NodeTable.root, "old")
    }
  }

  @Test func aNameThatTheKernelDidNotAskForIsNotRemoved() throws {
    defer { cleanUp() }
    let answers = ReplayAnswers(view: view)
    let gone = try item("gone")
    for _ in 0..<2 {
      answers.step = .vanishing(gone)
      #expect(throws: Errno(rawValue: ESTALE)) { try answers.remove(NodeTable.root, "gone") }
      _ = try answers.lookup(NodeTable.root, "gone")
      try answers.remove(NodeTable.root, "gone")
    }
  }
}
