import BackingTree
import DisplayNames
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// What becomes of a READDIRPLUS reply when the directory changes while the reply is on its way.
@Suite struct ListingRevalidationTests {
  private final class RecordingCache: KernelCacheInvalidator {
    let names = Guarded<Set<Name>>([])
    let nodes = Guarded<Set<NodeID>>([])
    func invalidate(_ names: [StaleName]) { self.names.withLock { $0.formUnion(names.map(\.name)) } }
    func invalidateBeforeNextWalk(_ names: [StaleName]) { invalidate(names) }
    func expireAttributes(of node: NodeID, in directory: NodeID?) { nodes.withLock { _ = $0.insert(node) } }
  }

  private let root = NodeTable.root

  /// Lists the root, calls `change`, and revalidates the listing.
  ///
  /// - Returns: the nodes that were listed, by name.
  private func list(_ tree: ViewedTree, thenChange change: () throws -> Void) throws -> [Name: NodeID] {
    let view = tree.view
    let open = try view.openDirectory(root, client: .daemon)
    let listed = try #require(view.versionOfEntries(in: open, from: 1, client: .daemon))
    var reply: [UInt8] = []
    var added: [AddedEntry] = []
    try view.list(open, from: 0, size: 4096) { item in
      if let entry = view.entry(of: item, in: open, listed) {
        added.append(AddedEntry(entry, name: reply.count, length: UInt32(item.name.count)))
      }
      reply += item.name
      return true
    }
    try change()
    reply.withUnsafeBytes { reply in
      view.revalidateAfterReply(added, of: root, listed.version) {
        UnsafeRawBufferPointer(rebasing: reply[$0])
      }
    }
    var nodes: [Name: NodeID] = [:]
    for name in ["first.txt", "second.txt"] as [Name] {
      nodes[name] = try CName(name).withPointer { (name) throws(Errno) in try view.lookup(root, name) }.id
    }
    return nodes
  }

  @Test func listing_ofUnchangedDirectory_staysCached() throws {
    let tree = try ViewedTree("first.txt", "second.txt")
    let kernel = RecordingCache()
    tree.view.startCaching(kernel)
    _ = try list(tree) {}
    #expect(kernel.names.withLock { $0 }.isEmpty)
    #expect(kernel.nodes.withLock { $0 }.isEmpty)
  }

  @Test func listing_ofDirectoryThatChangesMeanwhile_isInvalidated() throws {
    let tree = try ViewedTree("first.txt", "second.txt")
    let kernel = RecordingCache()
    tree.view.startCaching(kernel)
    let nodes = try list(tree) {
      let created = try CName("third" as Name).withPointer { (name) throws(Errno) in
        try tree.view.create(root, name, mode: 0o644, flags: 0, client: .daemon)
      }
      tree.view.close(created.file)
    }
    #expect(kernel.names.withLock { $0 } == ["first", "second"])
    #expect(kernel.nodes.withLock { $0 } == Set(nodes.values))
  }
}
