import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage
import Testing

@testable import View

/// What vanished behind the mount is told a moment later, when the kernel may know the same file, or another one with its
/// inode number, by another name.
@Suite struct VanishedFileTests {
  private let root: String
  private let view: View

  init() throws {
    var template = Array("/tmp/displayfs-vanished-XXXXXX".utf8CString)
    let root = String(cString: try #require(mkdtemp(&template)))
    self.root = root
    close(open("\(root)/a", O_WRONLY | O_CREAT, 0o644))
    let source = Descriptor(adopting: try systemCall { open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    view = try View(source: source, options: ViewOptions(), logger: Logger(label: "test"))
  }

  private func cleanUp() {
    for name in ["a", "b"] { unlink("\(root)/\(name)") }
    rmdir(root)
  }

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
    defer { cleanUp() }
    let before = try lookup("a")
    rename("\(root)/a", "\(root)/b")
    let there = try lookup("b")
    #expect(there.id == before.id)
    #expect(tellVanished(item("a", before)) != before.id)
    #expect(view.nodes.location(of: there.id)?.name.name == "b")
    #expect(try lookup("b").id == before.id)
  }

  @Test func whatIsThereAgainStaysKnown() throws {
    defer { cleanUp() }
    let before = try lookup("a")
    #expect(tellVanished(item("a", before)) != before.id)
    #expect(try lookup("a").id == before.id)
  }

  @Test func whatIsGoneIsNotTakenForWhatGetsItsInodeNumber() throws {
    defer { cleanUp() }
    let before = try lookup("a")
    // The same number, as if another file had got it.
    rename("\(root)/a", "\(root)/b")
    #expect(tellVanished(item("a", before)) == before.id)
    #expect(view.nodes.location(of: before.id) == nil)
    #expect(try lookup("b").id != before.id)
  }
}
