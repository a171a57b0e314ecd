import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// The kernel is notified a moment later of a file that vanished behind the mount. By then it may know the same file, or another
/// file with that inode number, by another name.
@Suite struct VanishedFileTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree("a") }

  private func lookup(_ name: String) throws -> Entry {
    try name.withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
  }

  private func item(_ name: Name, _ entry: Entry) -> ListingEntry {
    ListingEntry(
      directory: NodeTable.root, name: name, realName: name, identity: FileIdentity(entry.attributes),
      nodeKind: .plain, type: .regular)
  }

  /// Does what the kernel's unlink of a vanished entry does.
  private func notifyVanished(_ item: ListingEntry) -> NodeID {
    let entry = view.entryOfVanished(item)
    view.orphanVanished(item)
    return entry.id
  }

  @Test(arguments: [false, true]) func vanishedName_whenFileWasLookedUpByAnother_keepsThatNode(isOpen: Bool)
    throws
  {
    let before = try lookup("a")
    let file = isOpen ? try view.open(before.id, flags: O_RDONLY, client: .daemon) : nil
    defer { if let file { view.close(file) } }
    rename(tree.path("a"), tree.path("b"))
    let there = try lookup("b")
    // The kernel may still have a dentry of the old name: a client that creates a file by that name must not get this file.
    #expect((there.id == before.id) == isOpen)
    #expect(notifyVanished(item("a", before)) != there.id)
    #expect(view.nodes.link(of: there.id)?.name.name == "b")
    #expect(try lookup("b").id == there.id)
  }

  @Test(arguments: [false, true]) func openFile_whenOneOfItsNamesVanished_keepsItsNode(isOtherKnown: Bool)
    throws
  {
    link(tree.path("a"), tree.path("b"))
    if isOtherKnown { _ = try lookup("b") }
    let before = try lookup("a")
    let file = try view.open(before.id, flags: O_RDONLY, client: .daemon)
    defer { view.close(file) }
    unlink(tree.path("a"))
    #expect(notifyVanished(item("a", before)) != before.id)
    #expect(try lookup("b").id == before.id)
  }

  /// The kernel would mark the inode bad. (EIO)
  @Test func removedDirectory_withInodeNumberOfFile_hasNotItsNode() throws {
    var status = try lookup("a").attributes
    #expect("a".withCString { view.lastState(of: $0, status, in: view.source.root) } != nil)
    status.st_mode = S_IFDIR | 0o755
    #expect("a".withCString { view.lastState(of: $0, status, in: view.source.root) } == nil)
  }

  @Test func fileRenamedInBackingTree_keepsItsNode() throws {
    let before = try lookup("a")
    rename(tree.path("a"), tree.path("b"))
    let (old, new) = (item("a", before), item("b", before))
    #expect(try view.entryOfMoved(new).id == before.id)
    #expect(throws: Errno(rawValue: ESTALE)) { try view.open(before.id, flags: O_RDONLY, client: .daemon) }
    _ = try view.beginReplayedRename(old, to: new, yields: false)
    // A client that has not looked the file up since may have reached it by the old name.
    #expect(throws: Errno(rawValue: ESTALE)) { try view.open(before.id, flags: O_RDONLY, client: .daemon) }
    let found = try "b".withCString { (name) throws(Errno) in
      try view.lookupOrNegativeEntry(NodeTable.root, name, client: .daemon)
    }
    #expect(found.id == before.id)
    view.close(try view.open(before.id, flags: O_RDONLY, client: .daemon))
  }

  /// The kernel keeps the dentry of a file's first name when it learns of a second name.
  @Test func explain_byNameTakenByAnotherFile_isRefused() throws {
    tree.make("other")
    let file = try lookup("a")
    #expect(link(tree.path("a"), tree.path("b")) == 0)
    #expect(try lookup("b").id == file.id)
    #expect(try view.explain(file.id).realName == "b")
    #expect(rename(tree.path("other"), tree.path("b")) == 0)
    #expect(throws: Errno(rawValue: ESTALE)) { try view.explain(file.id) }
    #expect(try view.explain(lookup("a").id).realName == "a")
  }

  @Test func hardLinks_haveOneNode() throws {
    let first = try lookup("a")
    link(tree.path("a"), tree.path("b"))
    #expect(try lookup("b").id == first.id)
    #expect(try lookup("a").id == first.id)
  }

  @Test(arguments: [false, true]) func vanishedFile_isOpenedThroughOpenFileOnly(reportsChanges: Bool) throws {
    let before = try lookup("a")
    let node = before.id
    let file = try view.open(node, flags: O_RDWR, client: .daemon)
    defer { view.close(file) }
    func opens(_ thread: pid_t) -> Bool {
      let client = Client(user: geteuid(), group: getegid(), thread: thread, umask: 0)
      guard let file = try? view.open(node, flags: O_WRONLY, client: client) else { return false }
      view.close(file)
      return true
    }
    func looksUp(_ thread: pid_t) {
      let client = Client(user: geteuid(), group: getegid(), thread: thread, umask: 0)
      _ = try? "a".withCString { (name) throws(Errno) in
        try view.lookupOrNegativeEntry(NodeTable.root, name, client: client)
      }
    }
    #expect(opens(7))
    unlink(tree.path("a"))
    // A client that reached the file by its name has to look the name up again, whether or not the daemon knows already that the
    // name is gone: the kernel may still have the dentry.
    if reportsChanges {
      #expect(notifyVanished(item("a", before)) == node)
      #expect(view.nodes.link(of: node) == nil)
    }
    // By its name: ESTALE makes the kernel look the name up.
    for _ in 0..<2 {
      #expect(!opens(7))
      looksUp(7)
    }
    // Through /proc/self/fd: there is no name to look up.
    #expect(!opens(7) && !opens(8))
    looksUp(8)
    #expect(opens(7) && !opens(8))
    // A client without a process id cannot be distinguished from other clients.
    #expect(opens(0) == reportsChanges && opens(0) == reportsChanges)
  }

  /// As truncate(2), which takes a path, and ftruncate(2), which takes an open file.
  @Test(arguments: [false, true])
  func truncate_byVanishedName_isRefusedUnlessFileIsOpen(reportsChanges: Bool) throws {
    let before = try lookup("a")
    let file = try view.open(before.id, flags: O_RDWR, client: .daemon)
    defer { view.close(file) }
    func cuts(_ thread: pid_t, open file: OpenFile? = nil) -> Bool {
      let client = Client(user: geteuid(), group: getegid(), thread: thread, umask: 0)
      var change = AttributeChange()
      change.size = 1
      return (try? view.setAttributes(before.id, change, open: file, client: client)) != nil
    }
    #expect(cuts(7))
    unlink(tree.path("a"))
    if reportsChanges { _ = notifyVanished(item("a", before)) }
    #expect(cuts(7, open: file))
    // The kernel looks the name up, or, for /proc/self/fd, repeats the request without a lookup.
    for _ in 0..<2 {
      #expect(!cuts(7))
      view.walks.retries.clearRefusal(7)
    }
    #expect(!cuts(7) && cuts(7))
    // A client in another PID namespace cannot be distinguished from other clients.
    #expect(cuts(0) == reportsChanges)
  }

  @Test func vanishedName_thatExistsAgain_keepsItsNode() throws {
    let before = try lookup("a")
    #expect(notifyVanished(item("a", before)) != before.id)
    #expect(try lookup("a").id == before.id)
  }

  @Test func removedFile_whenInodeNumberIsReused_isNotMistakenForNewEntry() throws {
    let before = try lookup("a")
    // The same number, as if another file had got it.
    rename(tree.path("a"), tree.path("b"))
    #expect(notifyVanished(item("a", before)) == before.id)
    #expect(view.nodes.link(of: before.id) == nil)
    #expect(try lookup("b").id != before.id)
  }

  /// Another process removed the name by which the file was looked up last.
  @Test func fileWithAnotherKnownName_isReachedByThat() throws {
    let tree = try ViewedTree("one.c")
    let (view, root) = (tree.view, NodeTable.root)
    try #require(link(tree.path("one.c"), tree.path("other.c")) == 0)
    func lookup(_ name: String) throws -> NodeID { try name.withCString { try view.lookup(root, $0).id } }
    let node = try lookup("other.c")
    #expect(try lookup("one.c") == node)
    unlink(tree.path("one.c"))
    view.orphanVanished(
      ListingEntry(
        directory: root, name: "one.c", realName: "one.c",
        identity: try #require(view.nodes.identity(of: node)), nodeKind: .plain, type: .regular))
    #expect(view.nodes.link(of: node)?.name.equals("other.c") == true)
    #expect(view.nodes.node(of: try #require(view.nodes.identity(of: node))) == node)
  }
}
