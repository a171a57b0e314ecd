import BackingTree
import Dispatch
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// When descriptors run out the directory views are dropped, perhaps on a thread that works with one of the directories.
@Suite struct DescriptorReleaseTests {
  /// Records the names that are invalidated.
  private final class RecordingCache: KernelCacheInvalidator {
    let names = Guarded<[Name]>([])
    let hasInvalidated = DispatchSemaphore(value: 0)
    func invalidate(_ names: [StaleName]) {
      self.names.withLock { $0 += names.map(\.name) }
      hasInvalidated.signal()
    }
    func invalidateBeforeNextWalk(_ names: [StaleName]) { invalidate(names) }
    func expireAttributes(of node: NodeID, in directory: NodeID?) {}
  }

  @Test func releaseOfDescriptors_whileThreadHoldsDirectoryLock_doesNotDeadlock() throws {
    let tree = try ViewedTree("notes.txt")
    let view = tree.view
    let kernel = RecordingCache()
    view.startCaching(kernel)
    view.startCollectingChanges()
    // The kernel knows the file by its display name.
    let entry = try "notes".withCString { (name) throws(Errno) in try view.lookup(NodeTable.root, name) }
    #expect(entry.id != 0)
    DispatchQueue.global().async {
      try? view.changing(NodeTable.root) { (_) throws(Errno) in view.releaseDescriptors() }
      view.runChangeLoop { _ in }
    }
    #expect(kernel.hasInvalidated.wait(timeout: .now() + 30) == .success)
    #expect(kernel.names.withLock { $0 } == ["notes"])
    view.stopChangeLoop()
  }
}
