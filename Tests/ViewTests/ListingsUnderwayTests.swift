import BackingTree
import DisplayNames
import Glibc
import SystemPackage
import Testing
import ViewedTree

@testable import View

/// What the kernel is told of names with a listing it may read after it was told to forget all.
@Suite struct ListingsUnderwayTests {
  /// A kernel that forgets all names at once.
  private final class Notices: CacheNotices {
    let awaited = Guarded<[[NodeID]]>([])
    func expire(_ name: Name, in directory: NodeID) {}
    func invalidate(_ name: Name, in directory: NodeID, then: (@Sendable () -> Void)?) {}
    func expireAttributes(of node: NodeID, in directory: NodeID?) {}
    func expireAllNames() -> Bool { true }
    func expireAllNames(whenRead directories: [NodeID]) { awaited.withLock { $0.append(directories) } }
    var tellsOfAllNames: Bool { true }
  }

  private let tree: ViewedTree
  private let notices = Notices()

  init() throws {
    tree = try ViewedTree("notes.txt")
    tree.view.startCaching(notices)
  }

  /// - Returns: whether anything was told with it.
  private func list(_ open: OpenDirectory, from position: Int64 = 0) throws -> Bool {
    let view = tree.view
    guard let lease = view.leaseOfEntries(in: open, from: position, caller: .daemon) else { return false }
    var isTold = false
    try view.list(open, from: position, size: 4096, lease: lease) { listed in
      if view.entry(of: listed, in: open, lease) != nil { isTold = true }
      return true
    }
    return isTold
  }

  /// The directories for which it is done once more.
  private func forgetAll() -> [[NodeID]] {
    #expect(tree.view.cached.expireAllNames())
    return notices.awaited.withLock { awaited in
      defer { awaited = [] }
      return awaited
    }
  }

  @Test func whatWasToldBeforeAllNamesWereForgottenIsForgottenWhenItIsRead() throws {
    let view = tree.view
    let open = try view.openDirectory(NodeTable.root, caller: .daemon)
    #expect(try !list(open), "nobody has looked at anything")
    #expect(forgetAll() == [])
    _ = try "notes".withCString { (name) throws(Errno) in
      try view.lookupOrAbsence(NodeTable.root, name, caller: .daemon)
    }
    #expect(try list(open))
    #expect(forgetAll() == [[NodeTable.root]])
    // Who asks for more has read it.
    _ = try list(open, from: 100)
    #expect(forgetAll() == [])
    #expect(try list(open))
    view.close(open)
    #expect(forgetAll() == [])
  }
}
