import Testing

@testable import View

/// Nodeids of exported views.
@Suite struct DurableNodeIDTests {
  @Test(
    arguments: [1, 2, 1 << 28, 1 << 29 - 1, 1 << 29, 1 << 40, 1 << 45 - 1] as [UInt64], NodeKind.allCases)
  func nodeid_keepsWhatItIsMadeOf(inode: UInt64, nodeKind: NodeKind) throws {
    let id = try #require(DurableNodeID(inode: inode, generation: 0x89ab_cdef, nodeKind: nodeKind))
    #expect(id.inode == inode)
    #expect(id.nodeKind == nodeKind)
    #expect(id.generation == (inode < 1 << 29 ? 0x89ab_cdef : nil))
    #expect(id.rawValue > 1, "0 stands for no node, and 1 for the root.")
  }

  @Test func nodeids_ofDifferentFilesDiffer() {
    var all: Set<UInt64> = []
    var count = 0
    for inode in [1, 2, 1 << 29 - 1, 1 << 29, 1 << 30] as [UInt64] {
      for generation in [0, 1, 0xffff] as [UInt32] {
        for nodeKind in NodeKind.allCases {
          all.insert(DurableNodeID(inode: inode, generation: generation, nodeKind: nodeKind)!.rawValue)
          count += 1
        }
      }
    }
    for number in [0, 1, 1 << 61] as [UInt64] { all.insert(DurableNodeID.temporary(number).rawValue) }
    #expect(all.count == count + 3)
  }

  @Test func inodeNumberWithoutRoomForGeneration_hasNone() {
    #expect(DurableNodeID(inode: 1 << 45, generation: 1, nodeKind: .plain) == nil)
  }

  @Test func temporaryNodeid_hasNoKind() {
    #expect(DurableNodeID.temporary(7).nodeKind == nil)
  }

  @Test func forgottenFiles_areFoundUnlessTheirCellWasTaken() {
    var files = ForgottenFiles()
    let directory = DurableNodeID(rawValue: 77)
    for inode in 1...10_000 as ClosedRange<UInt64> {
      files.insert(inode, in: DurableNodeID(rawValue: inode + 1))
    }
    files.insert(5, in: directory)
    #expect(files.directory(of: 5) == directory)
    #expect(files.directory(of: 20_000) == nil)
    let found = (1...10_000 as ClosedRange<UInt64>).filter {
      $0 != 5 && files.directory(of: $0)?.rawValue == $0 + 1
    }
    // Consecutive inode numbers seldom collide.
    #expect(found.count > 6000)
  }
}
