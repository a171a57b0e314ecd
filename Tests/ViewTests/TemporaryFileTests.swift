import BackingTree
import CLinux
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// Files that are made without a name (O_TMPFILE). Their inode numbers are free once nothing has them open.
@Suite struct TemporaryFileTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree() }

  private func make() throws -> CreatedFile {
    try view.makeTemporaryFile(NodeTable.root, mode: 0o600, flags: O_RDWR, client: .daemon)
  }

  /// Gives a file a name in the backing tree. To the view it looks like another file with that inode number.
  private func name(_ file: CInt, _ name: String) throws {
    try #require(
      linkat(AT_FDCWD, "/proc/self/fd/\(file)", AT_FDCWD, tree.path(name), CInt(AT_SYMLINK_FOLLOW)) == 0)
  }

  private func lookup(_ name: String) throws -> Entry {
    try name.withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
  }

  @Test func openFile_thatGetsName_keepsItsNode() throws {
    let made = try make()
    defer { view.close(made.file) }
    try name(made.file.descriptor.rawValue, "a")
    #expect(try lookup("a").id == made.entry.id)
    #expect(view.nodes.link(of: made.entry.id)?.name.name == "a")
  }

  @Test func fileWithInodeNumberOfClosedOne_getsAnotherNode() throws {
    let made = try make()
    let copy = dup(made.file.descriptor.rawValue)
    defer { close(copy) }
    view.close(made.file)
    try name(copy, "a")
    #expect(try lookup("a").id != made.entry.id)
    #expect(view.nodes.link(of: made.entry.id) == nil)
  }

  @Test func temporaryFileWithInodeNumberOfClosedOne_getsAnotherNode() throws {
    let made = try make()
    let identity = FileIdentity(made.entry.attributes)
    view.close(made.file)
    let next = "".withCString { noName in
      view.nodes.lookupOrInsert(
        LookedUpFile(
          identity: identity, type: .regular, nodeKind: .plain, parent: NodeTable.root, name: noName),
        .another)
    }
    #expect(try #require(next).id != made.entry.id)
  }
}
