import BackingTree
import Testing

@testable import View

@Suite struct NodeTableTests {
  /// The state kept elsewhere for a forgotten node is released too. That may take long, and must not keep the table locked.
  @Test func forgottenNode_isReleasedWithTableUnlocked() throws {
    let released = Guarded<[NodeID]>([])
    let isReachable = Guarded(false)
    nonisolated(unsafe) var nodes: NodeTable?
    let made = NodeTable(root: FileIdentity(device: 1, inode: 1)) { id in
      released.withLock { $0.append(id) }
      // Would not return while the table is locked.
      let isGone = nodes?.identity(of: id) == nil && nodes?.count == 1
      isReachable.withLock { $0 = isGone }
      // The node's number is not yet given to another file.
      nodes?.shrink()
      let other = "other".withCString {
        nodes?.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: 3), type: .regular, nodeKind: .plain, parent: 1, name: $0
          ),
          .another)
      }
      #expect(other?.id != id)
    }
    nodes = made
    let node = try #require(
      "file".withCString {
        made.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: 2), type: .regular, nodeKind: .plain, parent: 1, name: $0
          ),
          .another)
      })
    made.forget(node.id, count: 1)
    #expect(released.withLock { $0 } == [node.id])
    #expect(isReachable.withLock { $0 })
    // From now on the number may be reused.
    let next = "next".withCString {
      made.lookupOrInsert(
        LookedUpFile(
          identity: FileIdentity(device: 1, inode: 4), type: .regular, nodeKind: .plain, parent: 1, name: $0),
        .another)
    }
    #expect(next?.id == node.id)
    nodes = nil
  }

  /// To end what is kept may take seconds. A thread that removes nodes for clients leaves it to another one.
  @Test func forgottenNodes_whenReleaseIsDeferred_areReleasedByOneWakeup() throws {
    let released = Guarded<[NodeID]>([])
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1)) { id in
      released.withLock { $0.append(id) }
    }
    let wakeups = Guarded(0)
    nodes.deferRelease { wakeups.withLock { $0 += 1 } }
    func lookUp(_ inode: UInt64) throws -> NodeID {
      try #require(
        "file\(inode)".withCString {
          nodes.lookupOrInsert(
            LookedUpFile(
              identity: FileIdentity(device: 1, inode: inode), type: .directory, nodeKind: .plain, parent: 1,
              name: $0),
            .another)
        }
      ).id
    }
    let removed = [try lookUp(2), try lookUp(3)]
    for node in removed { nodes.forget(node, count: 1) }
    #expect(wakeups.withLock { $0 } == 1)
    #expect(released.withLock { $0 } == [])
    #expect(nodes.count == 1)
    #expect(!removed.contains(try lookUp(4)))
    #expect(nodes.release() == 2)
    #expect(released.withLock { $0 } == removed)
    nodes.forget(try lookUp(5), count: 1)
    #expect(wakeups.withLock { $0 } == 2)
  }

  /// A known directory under another link was moved there. A directory that was just made has the inode number of a removed one.
  @Test func createdDirectory_withReusedInodeNumber_isAnotherNode() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    func lookupOrInsert(_ name: String, _ identityMatch: NodeTable.IdentityMatch) -> NodeTable.LookupResult? {
      name.withCString {
        nodes.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: 2), type: .directory, nodeKind: .plain, parent: 1,
            name: $0),
          identityMatch)
      }
    }
    let old = try #require(lookupOrInsert("old", .unknown))
    #expect(lookupOrInsert("moved", .unknown)?.id == old.id)
    let made = try #require(lookupOrInsert("made", .another))
    #expect(made.id != old.id)
    #expect(made.replaced == old.id)
    #expect(nodes.link(of: old.id) == nil)
    #expect(nodes.node(of: FileIdentity(device: 1, inode: 2)) == made.id)
    // Also when it has the link of the old one.
    #expect(lookupOrInsert("made", .another)?.id != made.id)
  }

  /// A thread may have the status of a removed directory when another has found the one that was made in its place.
  @Test(arguments: [NodeTable.IdentityMatch.unknown, .moving, .another])
  func directoryWithAnotherBirth_replacesOnlyNodeThatIsOlderThanItsStatus(
    identityMatch: NodeTable.IdentityMatch
  ) throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    func lookupOrInsert(
      _ birth: Birth, replacing: NodeID? = nil, _ identityMatch: NodeTable.IdentityMatch
    ) -> NodeTable.LookupResult? {
      "job".withCString {
        nodes.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: 2), type: .directory, nodeKind: .plain, parent: 1,
            name: $0, birth: birth
          ), replacing: replacing, identityMatch)
      }
    }
    let births = (Birth(digest: 7), Birth(digest: 8), Birth(digest: 9))
    let old = try #require(lookupOrInsert(.unknown, .unknown))
    // The first birth that is known counts.
    #expect(lookupOrInsert(births.0, .unknown)?.id == old.id)
    #expect(lookupOrInsert(.unknown, .unknown)?.id == old.id)
    #expect(lookupOrInsert(births.1, identityMatch) == nil)
    #expect(nodes.link(of: old.id) != nil)
    let new = try #require(lookupOrInsert(births.1, replacing: old.id, identityMatch))
    #expect(new.id != old.id)
    #expect(new.replaced == old.id)
    #expect(nodes.link(of: old.id) == nil)
    // A thread that was to replace the old node, too, with a status that was read before or after.
    for birth in [births.0, births.2] {
      #expect(lookupOrInsert(birth, replacing: old.id, identityMatch) == nil)
    }
    #expect(lookupOrInsert(births.1, replacing: old.id, .unknown)?.id == new.id)
  }

  /// There the generation of the inode distinguishes directories. The birth may have been read before that.
  @Test func birthOfDirectory_inExportedView_isTheOneReadLast() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1), isExported: true)
    func lookupOrInsert(_ birth: Birth, replacing: NodeID? = nil) -> NodeTable.LookupResult? {
      "job".withCString {
        nodes.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: 2), type: .directory, nodeKind: .plain, parent: 1,
            name: $0,
            birth: birth, durable: DurableNodeID(inode: 2, generation: 7, nodeKind: .plain)),
          replacing: replacing, .unknown)
      }
    }
    let node = try #require(lookupOrInsert(Birth(digest: 7)))
    #expect(lookupOrInsert(Birth(digest: 8)) == nil)
    #expect(lookupOrInsert(Birth(digest: 8), replacing: node.id)?.id == node.id)
    #expect(nodes.link(of: node.id)?.birth == Birth(digest: 8))
  }

  /// It was moved away before its old parent was removed, and a process may work in it.
  @Test func directoryMovedOutOfRemovedOne_isTheSameNode() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    func lookUp(_ inode: UInt64, in parent: NodeID, _ name: String) throws -> NodeID {
      try #require(
        name.withCString {
          nodes.lookupOrInsert(
            LookedUpFile(
              identity: FileIdentity(device: 1, inode: inode), type: .directory, nodeKind: .plain,
              parent: parent, name: $0),
            .unknown)
        }
      ).id
    }
    let (job, other) = (try lookUp(2, in: 1, "job"), try lookUp(3, in: 1, "other"))
    let moved = try lookUp(4, in: job, "moved")
    nodes.orphan(job, of: FileIdentity(device: 1, inode: 2))
    #expect(try lookUp(4, in: other, "moved") == moved)
    #expect(nodes.link(of: moved)?.parent == other)
  }

  /// An event of a removed file may be processed when a new file has its inode number. The new file's nodeid stays its own, and the
  /// kernel knows no second node by it.
  @Test func fileThatLostItsNameByMistake_inExportedView_isTheSameNodeAgain() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1), isExported: true)
    let identity = FileIdentity(device: 1, inode: 2)
    func lookUp() throws -> NodeTable.LookupResult {
      try #require(
        "file".withCString {
          nodes.lookupOrInsert(
            LookedUpFile(
              identity: identity, type: .regular, nodeKind: .plain, parent: 1, name: $0,
              durable: DurableNodeID(inode: 2, generation: 7, nodeKind: .plain)), .unknown)
        })
    }
    let file = try lookUp()
    _ = "file".withCString { nodes.didRemove(identity, nodeKind: .plain, from: 1, name: $0, isLast: true) }
    #expect(nodes.node(of: identity) == nil)
    let again = try lookUp()
    #expect(again.id == file.id && again.nodeid == file.nodeid)
    #expect(nodes.node(of: identity) == file.id)
    #expect(nodes.node(nodeid: file.nodeid) == file.id)
    #expect(nodes.link(of: file.id)?.name.equals("file") == true)
    // Both look-ups count.
    nodes.forget(file.id, count: 1)
    #expect(nodes.count == 2)
    nodes.forget(file.id, count: 1)
    #expect(nodes.count == 1)
  }

  /// A client that walks a tree makes the daemon keep a node for each file.
  @Test func node_takesThe56BytesThatItsRecordsAreDrawnWith() {
    #expect(MemoryLayout<Inodes.Inode>.stride == 40)
    #expect(MemoryLayout<Links.Record>.stride == 16)
  }

  /// A file with two links is reached by the other link once the latest is removed, and the directories of that link stay as long
  /// as it does.
  @Test func fileWithTwoLinks_afterTheLatestIsRemoved_isAtTheOther() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    func lookupOrInsert(_ inode: UInt64, _ type: FileType, in parent: NodeID, _ name: String) throws -> NodeID
    {
      try #require(
        name.withCString {
          nodes.lookupOrInsert(
            LookedUpFile(
              identity: FileIdentity(device: 1, inode: inode), type: type, nodeKind: .plain, parent: parent,
              name: $0,
              isOnlyName: false), .linked)
        }
      ).id
    }
    let (first, second) = (
      try lookupOrInsert(2, .directory, in: 1, "first"), try lookupOrInsert(3, .directory, in: 1, "second")
    )
    let file = try lookupOrInsert(4, .regular, in: first, "file")
    #expect(try lookupOrInsert(4, .regular, in: second, "link") == file)
    for directory in [first, second] { nodes.forget(directory, count: 1) }
    #expect(nodes.link(of: file)?.parent == second)
    "link".withCString {
      _ = nodes.didRemove(
        FileIdentity(device: 1, inode: 4), nodeKind: .plain, from: second, name: $0, isLast: false)
    }
    let location = try #require(nodes.link(of: file))
    #expect(location.parent == first && location.name.equals("file"))
    #expect(nodes.identity(of: first) != nil)
    #expect(nodes.identity(of: second) == nil)
    nodes.forget(file, count: 2)
    #expect(nodes.count == 1)
  }

  /// A chain of directories named `0` to `depth - 1`, the inode number two above the name.
  private func chain(_ depth: Int) throws -> (nodes: NodeTable, ids: [NodeID]) {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    var ids: [NodeID] = []
    for number in 0..<depth {
      let found = "\(number)".withCString {
        nodes.lookupOrInsert(
          LookedUpFile(
            identity: FileIdentity(device: 1, inode: UInt64(number) + 2), type: .directory, nodeKind: .plain,
            parent: ids.last ?? NodeTable.root, name: $0), .another)
      }
      ids.append(try #require(found).id)
    }
    return (nodes, ids)
  }

  private func hasName(_ wanted: String, _ nodes: NodeTable, onPathTo id: NodeID) -> Bool? {
    nodes.hasName(onPathTo: id) { String(cString: $0) == wanted }
  }

  /// The table is locked for 64 directories at a time.
  @Test(arguments: [1, 63, 64, 65, 128, 1000]) func path_ofAnyDepth_isSearchedToTheRoot(depth: Int) throws {
    let (nodes, ids) = try chain(depth)
    let last = try #require(ids.last)
    for number in [0, depth / 2, depth - 1] {
      #expect(hasName("\(number)", nodes, onPathTo: last) == true)
      #expect(nodes.isBelow(last, [FileIdentity(device: 1, inode: UInt64(number) + 2)]))
    }
    #expect(hasName("\(depth)", nodes, onPathTo: last) == false)
    #expect(hasName("\(depth - 1)", nodes, onPathTo: ids[0]) == (depth == 1))
    #expect(!nodes.isBelow(ids[0], [FileIdentity(device: 1, inode: UInt64(depth) + 2)]))
    #expect(hasName("0", nodes, onPathTo: NodeTable.root) == false)
  }

  /// The links of nodes are seen at different times, so they may contradict one another.
  @Test func path_withCycle_hasNoEnd() throws {
    let (nodes, ids) = try chain(3)
    nodes.didMove(
      FileIdentity(device: 1, inode: 2), nodeKind: .plain, from: (NodeTable.root, CName(copying: "0")),
      to: (ids[2], CName(copying: "0")))
    #expect(hasName("3", nodes, onPathTo: ids[2]) == nil)
    #expect(hasName("1", nodes, onPathTo: ids[2]) == true)
    #expect(!nodes.isBelow(ids[2], [FileIdentity(device: 1, inode: 9)]))
  }

  private func lookUp(_ inode: UInt64, in parent: NodeID, _ name: String, _ nodes: NodeTable) -> NodeID? {
    name.withCString {
      nodes.lookupOrInsert(
        LookedUpFile(
          identity: FileIdentity(device: 1, inode: inode), type: .directory, nodeKind: .plain, parent: parent,
          name: $0), .unknown)
    }?.id
  }

  /// The kernel may look up the inner one at its new place first, or the outer one.
  @Test func directoriesThatExchangedTheirOrder_formNoCycleAndAreForgotten() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    for number in UInt64(0)..<300 {
      let inodes = (outer: 2 * number + 2, inner: 2 * number + 3)
      let outer = try #require(lookUp(inodes.outer, in: NodeTable.root, "a", nodes))
      let inner = try #require(lookUp(inodes.inner, in: outer, "b", nodes))
      if number % 2 == 0 {
        #expect(lookUp(inodes.inner, in: NodeTable.root, "b", nodes) == inner)
      } else {
        #expect(lookUp(inodes.outer, in: inner, "a", nodes) == nil)
        nodes.dropLink(of: inner, in: outer)
        #expect(nodes.link(of: inner) == nil)
        #expect(hasName("c", nodes, onPathTo: inner) == nil)
      }
      #expect(lookUp(inodes.outer, in: inner, "a", nodes) == outer)
      if number % 2 == 1 { #expect(lookUp(inodes.inner, in: NodeTable.root, "b", nodes) == inner) }
      #expect(nodes.link(of: outer)?.parent == inner && nodes.link(of: inner)?.parent == NodeTable.root)
      #expect(hasName("c", nodes, onPathTo: outer) == false)
      for node in [outer, inner] { nodes.forget(node, count: 3) }
      #expect(nodes.count == 1)
    }
  }

  /// What another process did is reported after the kernel has forgotten the directory, which is kept for what lies below it.
  @Test func directoryMovedBelowItself_keepsNothingForEver() throws {
    let (nodes, ids) = try chain(3)
    nodes.forget(ids[0], count: 1)
    let identity = FileIdentity(device: 1, inode: 2)
    nodes.didMove(
      identity, nodeKind: .plain, from: (NodeTable.root, CName(copying: "0")),
      to: (ids[2], CName(copying: "0")))
    #expect(nodes.link(of: ids[1]) == nil)
    #expect(nodes.node(of: identity) == nil)
    for id in ids.dropFirst() { nodes.forget(id, count: 1) }
    #expect(nodes.count == 1)
  }

  /// A directory has one link: an earlier one would keep the directories above it.
  @Test func directoryThatMoved_isAtItsLastPlaceAlone() throws {
    let nodes = NodeTable(root: FileIdentity(device: 1, inode: 1))
    let first = try #require(lookUp(2, in: NodeTable.root, "first", nodes))
    let second = try #require(lookUp(3, in: NodeTable.root, "second", nodes))
    let moved = try #require(lookUp(4, in: first, "moved", nodes))
    #expect(lookUp(4, in: second, "moved", nodes) == moved)
    #expect(nodes.otherLinks(of: moved).isEmpty)
    nodes.forget(first, count: 1)
    #expect(nodes.identity(of: first) == nil)
  }
}
