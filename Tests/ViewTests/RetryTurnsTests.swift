import BackingTree
import Glibc
import Testing

@testable import View

@Suite struct RetryTurnsTests {
  private let turns = RetryTurns()
  private let file = FileIdentity(device: 1, inode: 7)
  private let other = FileIdentity(device: 1, inode: 8)

  /// Whether a replayed rename of the file gives way to a client.
  private func givesWay(_ file: FileIdentity) -> Bool { turns.beginRename(of: file, yields: true) == nil }

  /// Ends a replayed rename on another thread, after some microseconds.
  private func end(_ rename: consuming ReplayedRename?, after delay: UInt32) -> Thread? {
    Thread { [rename] in
      usleep(delay)
      withExtendedLifetime(rename) {}
    }
  }

  /// The kernel tries again once. A rename that is replayed meanwhile would have the client refused again.
  @Test func refusedFile_isAwaitedUntilTheThreadIsServed() {
    #expect(!givesWay(file))
    #expect(turns.noteRefusal(of: [file], by: 1))
    #expect(givesWay(file) && !givesWay(other))
    turns.noteService(of: 2)
    #expect(givesWay(file))
    turns.noteService(of: 1)
    #expect(!givesWay(file))
  }

  @Test func threadThatIsServedNoMore_isAwaitedForAWhile() {
    #expect(turns.noteRefusal(of: [file], by: 1))
    usleep(600_000)
    #expect(!givesWay(file))
  }

  /// Else the kernel could walk the path again before it has renamed the dentry.
  @Test func refusal_duringReplayedRename_waitsForItsEnd() {
    let thread = end(turns.beginRename(of: file, yields: true), after: 20_000)
    for (waited, isExpected) in [(other, false), (file, true), (file, false)] {
      let start = ContinuousClock.now
      #expect(turns.noteRefusal(of: [waited], by: 1))
      #expect((ContinuousClock.now - start > .milliseconds(10)) == isExpected)
    }
    thread?.join()
  }

  /// Each hard link of a file may have one.
  @Test func refusal_duringTwoReplayedRenames_waitsForTheEndOfBoth() {
    let threads = [10_000, 40_000].map { end(turns.beginRename(of: file, yields: true), after: $0) }
    let start = ContinuousClock.now
    #expect(turns.noteRefusal(of: [file], by: 1))
    #expect(ContinuousClock.now - start > .milliseconds(30))
    for thread in threads { thread?.join() }
  }

  @Test func rename_thatHasGivenWayForLong_begins() {
    // The client may be frozen.
    #expect(turns.noteRefusal(of: [file], by: 1))
    var rename = turns.beginRename(of: file, yields: false)
    #expect(rename != nil)
    // Another one gives way, which does not end the first.
    #expect(givesWay(file))
    #expect(!turns.noteRefusal(of: [file], by: 2))
    rename = nil
    #expect(turns.noteRefusal(of: [file], by: 2))
  }

  @Test func requestWithTwoPaths_isAwaitedByRenamesOfBothFiles() {
    #expect(turns.noteRefusal(of: [file, other], by: 1))
    #expect(givesWay(file) && givesWay(other))
    turns.noteService(of: 1)
    #expect(!givesWay(file) && !givesWay(other))
  }

  /// Every request would look for it.
  @Test func threadThatGaveUp_isForgottenWhenAnotherIsServed() {
    #expect(turns.noteRefusal(of: [file], by: 1))
    #expect(turns.isAnyAwaited)
    usleep(600_000)
    turns.noteService(of: 2)
    #expect(!turns.isAnyAwaited)
  }

  /// The kernel tries again once: the client's lookup of the new name must count, though a later move was noted after the
  /// refusal.
  @Test func refusal_whileTheNextRenameBegins_countsForThatRename() {
    let (walks, node) = (PathWalks(), NodeID(7))
    walks.moved.areLookupNamesStable.store(false, ordering: .relaxed)
    walks.moved.noteMove(of: node, isReplayed: true)
    #expect(walks.moved.mayHaveWalkedByOldName(node, 1))
    let rename = walks.turns.beginRename(of: file, yields: true)
    let thread = Thread { [rename = consume rename] in
      walks.moved.noteMove(of: node, isReplayed: true)
      withExtendedLifetime(rename) {}
    }
    walks.noteRefusal(of: [(node, file)], by: 1)
    thread?.join()
    walks.moved.noteLookup(of: node, by: 1)
    #expect(!walks.moved.mayHaveWalkedByOldName(node, 1))
    // Another thread's lookup may have been led by the dentry that was renamed meanwhile.
    walks.moved.noteLookup(of: node, by: 2)
    #expect(walks.moved.mayHaveWalkedByOldName(node, 2))
  }
}
