import BackingTree
import Testing

@testable import View

@Suite struct NodeTableTests {
  /// What else is kept of a node ends when the node is forgotten; that may take long, and keeps nobody from the table.
  @Test func nodeThatIsForgotten_isReleasedWithTheTableUnlocked() throws {
    let released = Guarded<[NodeID]>([])
    let isReachable = Guarded(false)
    nonisolated(unsafe) var nodes: NodeTable?
    let made = NodeTable(root: FileIdentity(device: 1, inode: 1)) { id in
      released.withLock { $0.append(id) }
      // Would not return while the table is locked.
      isReachable.withLock { $0 = nodes?.identity(of: id) == nil && nodes?.count == 1 }
      // Its number is not another file's yet.
      nodes?.shrink()
      let other = "other".withCString {
        nodes?.remember(
          FileIdentity(device: 1, inode: 3), .regular, facet: .plain, parent: 1, name: $0, sameness: .another)
      }
      #expect(other?.id != id)
    }
    nodes = made
    let node = try #require(
      "file".withCString {
        made.remember(
          FileIdentity(device: 1, inode: 2), .regular, facet: .plain, parent: 1, name: $0, sameness: .another)
      })
    made.forget(node.id, count: 1)
    #expect(released.withLock { $0 } == [node.id])
    #expect(isReachable.withLock { $0 })
    // From now on it may be.
    let next = "next".withCString {
      made.remember(
        FileIdentity(device: 1, inode: 4), .regular, facet: .plain, parent: 1, name: $0, sameness: .another)
    }
    #expect(next?.id == node.id)
    nodes = nil
  }
}
