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

  private func listed(
    _ name: Name, _ identity: FileIdentity? = nil, type: BackingTree.FileType = .directory
  ) throws -> ListingEntry {
    let identity = try identity ?? FileIdentity(status(name))
    return ListingEntry(
      directory: NodeTable.root, name: name, realName: name, identity: identity, nodeKind: .plain, type: type)
  }

  private func status(_ name: Name) throws -> stat {
    var status = stat()
    try systemCall { lstat(tree.path(name.description), &status) }
    return status
  }

  private func lookUp(_ name: String) throws -> Entry {
    try name.withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
  }

  /// A directory took the name, and a client has looked it up: the kernel must keep its dentry, with what is mounted there.
  @Test func replayAtNameOfKnownDirectory_isRefused() throws {
    #expect(mkdir(tree.path("Folder"), 0o755) == 0 && mkdir(tree.path("Moved"), 0o755) == 0)
    let entry = try lookUp("Folder")
    let gone = FileIdentity(device: 1, inode: 1)
    let responder = ReplayResponder(view: view)
    for step in [
      ReplayResponder.Step.vanishing(try listed("Folder", gone)),
      .vanishing(try listed("Folder", gone, type: .regular)), .vanishing(try listed("Folder")),
      .appearing(try listed("Folder")),
    ] {
      responder.step = step
      #expect(try responder.lookup(NodeTable.root, "Folder").id == entry.id)
      #expect(throws: Errno.ioError) { try responder.remove(NodeTable.root, "Folder") }
    }
    let moved = try listed("Moved")
    responder.step = .renaming(from: try listed("Folder", moved.identity), to: moved, yields: false)
    #expect(try responder.lookup(NodeTable.root, "Folder").id == entry.id)
    #expect(throws: Errno(rawValue: ESTALE)) { try responder.rename(NodeTable.root, "Folder") }
  }

  @Test func directoryRenamedAgain_keepsItsNode() throws {
    #expect(mkdir(tree.path("Old"), 0o755) == 0)
    let entry = try lookUp("Old")
    let old = try listed("Old")
    #expect(rename(tree.path("Old"), tree.path("Later")) == 0 && mkdir(tree.path("New"), 0o755) == 0)
    let responder = ReplayResponder(view: view)
    responder.step = .renaming(from: old, to: try listed("New", old.identity), yields: false)
    #expect(try responder.lookup(NodeTable.root, "Old").id == entry.id)
  }

  /// A reply with another size would make the kernel drop what it has cached of the file.
  @Test func fileRenamedAgain_isRefused() throws {
    _ = try lookUp("new")
    let old = try listed("new", type: .regular)
    #expect(rename(tree.path("new"), tree.path("later")) == 0)
    let responder = ReplayResponder(view: view)
    responder.step = .renaming(from: old, to: try listed("next", old.identity, type: .regular), yields: false)
    #expect(throws: Errno(rawValue: ESTALE)) { try responder.lookup(NodeTable.root, "new") }
  }

  /// The kernel refuses an entry of another type than it makes, and sends no FORGET.
  @Test func replayedCreationOfAnotherType_leavesNoLookup() throws {
    let node = try lookUp("new").id
    let count = view.lookupCount(of: node)
    let responder = ReplayResponder(view: view)
    responder.step = .appearing(try listed("new"))
    #expect(throws: Errno.ioError) { try responder.make(NodeTable.root, "new") }
    #expect(view.lookupCount(of: node) == count)
  }
}
