import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import FuseServer
@testable import View

/// The kernel moves, or removes, what it keeps of a name when a change is replayed: that must be what it was told for it.
@Suite struct ReplayAnswersTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree("new") }

  private func item(_ name: Name) throws -> ListedItem {
    let entry = try "new".withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    return ListedItem(
      directory: NodeTable.root, name: name, realName: "new", identity: FileIdentity(entry.attributes),
      facet: .plain, type: .regular)
  }

  @Test func aNameThatTheKernelDidNotAskForIsNotMoved() throws {
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
