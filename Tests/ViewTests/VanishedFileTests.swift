import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// What vanished behind the mount is told a moment later, when the kernel may know the same file, or another one with its
/// inode number, by another name.
@Suite struct VanishedFileTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree("a") }

  private func lookup(_ name: String) throws -> Entry {
    try name.withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
  }

  private func item(_ name: Name, _ entry: Entry) -> ListedItem {
    ListedItem(
      directory: NodeTable.root, name: name, realName: name, identity: FileIdentity(entry.attributes),
      facet: .plain, type: .regular)
  }

  /// The kernel's unlink of what it is told to be gone.
  private func tellVanished(_ item: ListedItem) -> NodeID {
    let told = view.entryOfVanished(item)
    view.forgetVanished(item)
    return told.id
  }

  @Test func whatIsKnownByAnotherNameSinceStaysKnown() throws {
    let before = try lookup("a")
    rename(tree.path("a"), tree.path("b"))
    let there = try lookup("b")
    #expect(there.id == before.id)
    #expect(tellVanished(item("a", before)) != before.id)
    #expect(view.nodes.location(of: there.id)?.name.name == "b")
    #expect(try lookup("b").id == before.id)
  }

  @Test func whatIsThereAgainStaysKnown() throws {
    let before = try lookup("a")
    #expect(tellVanished(item("a", before)) != before.id)
    #expect(try lookup("a").id == before.id)
  }

  @Test func whatIsGoneIsNotTakenForWhatGetsItsInodeNumber() throws {
    let before = try lookup("a")
    // The same number, as if another file had got it.
    rename(tree.path("a"), tree.path("b"))
    #expect(tellVanished(item("a", before)) == before.id)
    #expect(view.nodes.location(of: before.id) == nil)
    #expect(try lookup("b").id != before.id)
  }
}
