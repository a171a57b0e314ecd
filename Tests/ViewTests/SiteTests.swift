import BackingTree
import DisplayNames
import Glibc
import Testing
import ViewedTree

@testable import View

/// Where a directory is in the tree decides how its entries are shown. That is found at the first look at each directory.
@Suite struct SiteTests {
  /// Makes the directories of a path, looks them up, and runs `body` with the site of the last one.
  private func withSite(
    of path: String, options: ViewOptions = ViewOptions(), _ body: (Site) throws -> Void
  ) throws {
    let tree = try ViewedTree(options: options)
    let names = path.split(separator: "/")
    for count in 1...names.count {
      try #require(mkdir(tree.path(names.prefix(count).joined(separator: "/")), 0o755) == 0)
    }
    defer {
      for count in (1...names.count).reversed() {
        rmdir(tree.path(names.prefix(count).joined(separator: "/")))
      }
    }
    var node = NodeTable.root
    for name in names { node = try String(name).withCString { try tree.view.lookup(node, $0).id } }
    try body(tree.view.site(of: node))
  }

  @Test func ordinaryDirectory_hasTheSiteOfTheRoot() throws {
    try withSite(of: "one/two/three") { site in
      #expect(site.role == ViewOptions().role(ofPath: []))
      #expect(site.path == [])
    }
  }

  @Test(arguments: ["Letter.rtfd", "Letter.rtfd/inside", "one/Letter.rtfd/inside/deeper"])
  func directoryInPackage_isShownUnchanged(path: String) throws {
    try withSite(of: path) { site in #expect(site.role == .insidePackage) }
  }

  @Test(arguments: [".Trash-1000/files", "one/.Trash-1000/files", ".Trash/1000/files"])
  func filesOfTrash_areKnown(path: String) throws {
    try withSite(of: path) { site in #expect(site.role.contains(.trashFiles)) }
  }

  @Test(arguments: [".Trash-1000/info", "Trash/files", "files", ".Trash/1000/more/files"])
  func otherDirectories_areNoTrash(path: String) throws {
    try withSite(of: path) { site in #expect(!site.role.contains(.trashFiles)) }
  }

  @Test func path_isKnown_whereRulesDependOnIt() throws {
    var options = ViewOptions()
    options.aliases = .symlink
    try withSite(of: "one/two", options: options) { site in #expect(site.path == ["one", "two"]) }
  }

  @Test(arguments: [false, true])
  func directoryMovedIntoPackageAndBack_isShownAsOutside(isSeenInside: Bool) throws {
    let tree = try ViewedTree()
    let (view, root) = (tree.view, NodeTable.root)
    for name in ["Letter.rtfd", "drafts", "drafts/notes.rtfd"] {
      try #require(mkdir(tree.path(name), 0o755) == 0)
    }
    defer { rmdir(tree.path("drafts/notes.rtfd")) }
    func node(_ name: String, in parent: NodeID = root) throws -> NodeID {
      try name.withCString { try view.lookup(parent, $0).id }
    }
    func move(from: NodeID, to: NodeID) throws {
      try "drafts".withCString { name in
        try view.rename(from, name, to: to, name, flags: [], client: .daemon)
      }
    }
    let (package, drafts) = (try node("Letter.rtfd"), try node("drafts"))
    func isNamedAsOutside() -> Bool { (try? node("notes", in: drafts)) != nil }
    #expect(isNamedAsOutside())
    try move(from: root, to: package)
    if isSeenInside { #expect(!isNamedAsOutside()) }
    try move(from: package, to: root)
    #expect(isNamedAsOutside())
  }

  /// It is one again when the directory that it lies in is looked at, so nothing seems to have changed there.
  @Test func directoryThatWasAPackageForAMoment_isShownAsOutside() throws {
    var options = ViewOptions()
    options.finderInfo = .on
    let tree = try ViewedTree(options: options)
    let (view, root) = (tree.view, NodeTable.root)
    view.startCaching(EmptyCache())
    view.startCollectingChanges()
    try #require(mkdir(tree.path("drafts"), 0o755) == 0)
    tree.make("drafts/notes.txt")
    defer { unlink(tree.path("drafts/notes.txt")) }
    func node(_ name: String, in parent: NodeID = root) throws -> NodeID {
      try name.withCString { try view.lookup(parent, $0).id }
    }
    let drafts = try node("drafts")
    try view.directoryView(root).withCurrent { _ in }
    // By other processes: the watch leaves out what this one does.
    func setfattr(_ arguments: String) throws {
      try #require(system("setfattr \(arguments) '\(tree.path("drafts"))'") == 0)
    }
    let isBundle = String(repeating: "00", count: 8) + "20" + String(repeating: "00", count: 23)
    try setfattr("-n user.com.apple.FinderInfo -v 0x\(isBundle)")
    #expect(try view.directoryView(drafts).lastSite.role == .insidePackage)
    try setfattr("-x user.com.apple.FinderInfo")
    try view.directoryView(root).withCurrent { _ in }
    // Once for what was inspected, and once for what is to be inspected because of that.
    for _ in 0..<2 { _ = view.drainViewChanges() }
    #expect((try? node("notes", in: drafts)) != nil)
  }
}
