import Synchronization
import Testing

@testable import View

@Suite struct MovedNodesTests {
  private let moved = MovedNodes()

  @Test func nodeThatWasMoved_isServedToThreadsThatHaveLookedItUpSince() {
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
    moved.noteLookup(of: 7, by: 1)
    moved.noteMove(of: 7)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
    #expect(!moved.mayHaveWalkedByOldName(7, 1, readsOnly: true))
    moved.noteLookup(of: 7, by: 1)
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
    #expect(moved.mayHaveWalkedByOldName(7, 2))
  }

  /// It has looked up another name of the node, and then walked by the old one, which the kernel had not dropped in time.
  @Test func threadThatMayHaveWalkedByTheOldName_hasToLookTheNodeUpAgain() {
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

  /// Before Linux 6.14 a client that came by the old name may look up the new one, without having given it.
  @Test func lookupDuringAReplayedRename_countsOnlyAfterARefusal_whereNamesAreNotStable() {
    for areStable in [true, false] {
      moved.areLookupNamesStable.store(areStable, ordering: .relaxed)
      moved.noteMove(of: 7, isReplayed: true)
      moved.noteLookup(of: 7, by: 1)
      #expect(moved.mayHaveWalkedByOldName(7, 1) == !areStable)
      moved.noteLookup(of: 7, by: 1)
      #expect(!moved.mayHaveWalkedByOldName(7, 1))
    }
    moved.noteMove(of: 7)
    moved.noteLookup(of: 7, by: 1)
    #expect(!moved.mayHaveWalkedByOldName(7, 1))
  }

  @Test func nodeThatWasOnlyWalkedTo_isServedToOthers() {
    moved.noteStaleWalk(to: [7], by: 1)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
    #expect(!moved.mayHaveWalkedByOldName(7, 2))
  }

  @Test func moveAfterALookup_countsAgain() {
    moved.noteMove(of: 7)
    moved.noteLookup(of: 7, by: 1)
    moved.noteMove(of: 7)
    #expect(moved.mayHaveWalkedByOldName(7, 1))
  }
}
