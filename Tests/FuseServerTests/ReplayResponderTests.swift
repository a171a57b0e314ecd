import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import FuseServer
@testable import View

/// The kernel moves or removes its dentry of a name when a change is replayed. That dentry must come from the reply to the
/// preceding lookup.
@Suite struct ReplayResponderTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree("new") }

  private func item(_ name: Name) throws -> ListingEntry {
    let entry = try "new".withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    return ListingEntry(
      directory: NodeTable.root, name: name, realName: "new", identity: FileIdentity(entry.attributes),
      nodeKind: .plain, type: .regular)
  }

  @Test func replayedRename_withoutPrecedingLookup_isRefused() throws {
    let responder = ReplayResponder(view: view)
    let (old, new) = (try item("old"), try item("new"))
    for _ in 0..<2 {
      responder.step = .renaming(from: old, to: new, yields: true)
      #expect(throws: Errno(rawValue: ESTALE)) { try responder.rename(NodeTable.root, "old") }
      #expect(try FileIdentity(responder.lookup(NodeTable.root, "old").attributes) == new.identity)
      try responder.rename(NodeTable.root, "old")
    }
  }

  @Test func replayedRemoval_withoutPrecedingLookup_isRefused() throws {
    let responder = ReplayResponder(view: view)
    let gone = try item("gone")
    for _ in 0..<2 {
      responder.step = .vanishing(gone)
      #expect(throws: Errno(rawValue: ESTALE)) { try responder.remove(NodeTable.root, "gone") }
      _ = try responder.lookup(NodeTable.root, "gone")
      try responder.remove(NodeTable.root, "gone")
    }
  }

  /// A directory took the name, and a client has looked it up: the kernel must keep its dentry, with what is mounted there.
  @Test func replayAtNameOfKnownDirectory_isRefused() throws {
    #expect(mkdir(tree.path("Folder"), 0o755) == 0)
    let entry = try "Folder".withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    let directory = ListingEntry(
      directory: NodeTable.root, name: "Folder", realName: "Folder", identity: FileIdentity(entry.attributes),
      nodeKind: .plain, type: .directory)
    let replaced = ListingEntry(
      directory: NodeTable.root, name: "Folder", realName: "Folder",
      identity: FileIdentity(device: 1, inode: 1),
      nodeKind: .plain, type: .directory)
    let responder = ReplayResponder(view: view)
    for step in [ReplayResponder.Step.vanishing(replaced), .vanishing(directory), .appearing(directory)] {
      responder.step = step
      #expect(try responder.lookup(NodeTable.root, "Folder").id == entry.id)
      #expect(throws: Errno.ioError) { try responder.remove(NodeTable.root, "Folder") }
    }
  }
}
