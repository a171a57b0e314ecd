import BackingTree
import DisplayNames
import Glibc
import Synchronization
import Testing
import ViewedTree

@testable import View

/// Names that get another meaning because another entry was made or removed through the mount.
@Suite struct DisplacedNamesTests {
  private final class RecordingCache: KernelCacheInvalidator {
    /// The names that no path walk resolves to what they stood for.
    let names = Mutex<Set<Name>>([])
    func invalidate(_ names: [StaleName]) {}
    func invalidateBeforeNextWalk(_ stale: [StaleName]) {
      names.withLock { $0.formUnion(stale.map(\.name)) }
    }
    func expireAttributes(of node: NodeID, in directory: NodeID?) {}

    func take() -> Set<Name> {
      names.withLock { names in
        defer { names = [] }
        return names
      }
    }
  }

  @Test func packageThatLosesItsDisplayName_isNoDirectoryByItsRealName() throws {
    let tree = try ViewedTree()
    let (view, root) = (tree.view, NodeTable.root)
    mkdir(tree.path("a.rtfd"), 0o755)
    let cache = RecordingCache()
    view.startCaching(cache)
    view.changes.queue.startCollectingChanges()
    func type(_ name: String) throws -> FileType {
      FileType(mode: try name.withCString { try view.lookup(root, $0) }.attributes.st_mode)
    }
    #expect(try type("a") == .regular)
    #expect(try type("a.rtfd") == .directory)
    #expect(cache.take() == [])
    try "a.txt".withCString {
      _ = try view.create(root, $0, mode: 0o644, flags: O_WRONLY | O_CREAT, client: .daemon)
    }
    #expect(cache.take() == ["a", "a.rtfd"])
    #expect(try type("a.rtfd") == .regular)
    try "a.txt".withCString { try view.unlink(root, $0, client: .daemon) }
    #expect(cache.take() == ["a.rtfd"])
    #expect(try type("a.rtfd") == .directory)
  }
}
