import Synchronization
import Testing

@testable import View

@Suite struct MovedNodesTests {
  private let moved = MovedNodes()

  @Test func movedNode_isServedToThreadsThatLookedItUpSince() {
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
    moved.noteLookup(of: 7, by: 1)
    moved.noteMove(of: 7)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
    #expect(!moved.mayHaveWalkedByOldName(7, 1, readsOnly: true))
    moved.noteLookup(of: 7, by: 1)
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
    #expect(moved.mayHaveWalkedByOldName(7, 2))
  }

  /// The thread has looked up another name of the node, and then walked by the old name, which the kernel had not dropped in
  /// time.
  @Test func threadThatWalkedByOldName_mustLookUpAgain() {
    moved.noteMove(of: 7)
    moved.noteLookup(of: 7, by: 1)
    moved.noteLookup(of: 7, by: 2)
    moved.noteStaleWalk(to: [7], by: 1)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
    #expect(moved.mayHaveWalkedByOldName(7, 1, readsOnly: true))
    #expect(!moved.mayHaveWalkedByOldName(7, 2))
    moved.noteLookup(of: 7, by: 1)
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
  }

  /// Before Linux 6.14, for a client that came by the old name, the kernel may send a LOOKUP of the new name, which the client
  /// never used.
  @Test func lookupDuringReplayedRename_ifNamesAreUnstable_countsAfterRefusal() {
    for areStable in [true, false] {
      moved.areLookupNamesStable.store(areStable, ordering: .relaxed)
      moved.noteMove(of: 7, isReplayed: true)
      moved.noteLookup(of: 7, by: 1)
      #expect(moved.mayHaveWalkedByOldName(7, 1) == !areStable)
      moved.noteRefusal(of: 7, by: 1)
      moved.noteLookup(of: 7, by: 1)
      #expect(!moved.mayHaveWalkedByOldName(7, 1))
    }
    moved.noteMove(of: 7)
    moved.noteLookup(of: 7, by: 1)
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
  }

  /// A client that holds a file handle means the file, whatever its name is.
  @Test func threadThatCameByHandle_isServed() {
    for areStable in [true, false] {
      moved.areLookupNamesStable.store(areStable, ordering: .relaxed)
      moved.noteMove(of: 7, isReplayed: true)
      moved.noteLookup(of: 7, by: 1, isByHandle: true)
      #expect(!moved.mayHaveWalkedByOldName(7, 1))
    }
  }

  @Test func nodeReachedByStaleWalk_isServedToOtherThreads() {
    moved.noteStaleWalk(to: [7], by: 1)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
    #expect(!moved.mayHaveWalkedByOldName(7, 2))
  }

  @Test func moveAfterLookup_requiresAnotherLookup() {
    moved.noteMove(of: 7)
    moved.noteLookup(of: 7, by: 1)
    moved.noteMove(of: 7)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
  }
}
