import BackingTree
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// Directories that other processes move in the backing tree so that one is in the other's place.
@Suite struct ExchangedDirectoriesTests {
  private let tree: ViewedTree
  private var view: View { tree.view }

  init() throws { tree = try ViewedTree() }

  private func lookUp(_ name: String, in parent: NodeID = NodeTable.root) throws -> NodeID {
    try name.withCString { (name) throws(Errno) in try view.lookup(parent, name).id }
  }

  /// A client works in the inner directory, and looks nothing else up.
  @Test(arguments: [2, 3, 5]) func outerDirectoryMovedIntoInner_isFoundThere(depth: Int) throws {
    var ids = [NodeTable.root]
    var path = tree.root
    for number in 0..<depth {
      path += "/\(number)"
      #expect(mkdir(path, 0o755) == 0)
      ids.append(try lookUp("\(number)", in: ids.last!))
    }
    let (outer, inner) = (ids[1], ids[depth])
    // It stays open.
    _ = try view.directory(inner)
    #expect(rename(path, tree.path("inner")) == 0)
    #expect(rename(tree.path("0"), tree.path("inner/outer")) == 0)
    #expect(try lookUp("outer", in: inner) == outer)
    #expect(try lookUp("inner") == inner)
    _ = try view.directory(outer)
    #expect(view.nodes.link(of: outer)?.parent == inner)
    // Nothing keeps one of them for ever.
    for id in ids.dropFirst() { view.forget(id, count: 2) }
    #expect(view.nodes.count == 1)
  }
}
