import BackingTree
import Dispatch
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// What is kept of directories is let go when descriptors run out, for somebody who may be working with one of them.
@Suite struct LettingGoTests {
  /// A kernel that must be told of each name.
  private final class Notices: CacheNotices {
    let names = Guarded<[Name]>([])
    let hasExpired = DispatchSemaphore(value: 0)
    func expire(_ name: Name, in directory: NodeID) {
      names.withLock { $0.append(name) }
      hasExpired.signal()
    }
    func invalidate(_ name: Name, in directory: NodeID, then: (@Sendable () -> Void)?) {
      expire(name, in: directory)
      then?()
    }
    func expireAttributes(of node: NodeID, in directory: NodeID?) {}
    func expireAllNames() -> Bool { false }
    func expireAllNames(whenRead directories: [NodeID]) {}
    var tellsOfAllNames: Bool { false }
  }

  @Test func whoWorksWithADirectoryDoesNotWaitForHimself() throws {
    let tree = try ViewedTree("notes.txt")
    let view = tree.view
    let notices = Notices()
    view.startCaching(notices)
    view.startFollowing()
    DispatchQueue.global().async {
      try? view.changing(NodeTable.root) { (_, _) throws(Errno) in view.releaseDescriptors() }
      view.follow { _ in }
    }
    #expect(notices.hasExpired.wait(timeout: .now() + 30) == .success)
    #expect(notices.names.withLock { $0 } == ["notes"])
    view.stopFollowing()
  }
}
