import BackingTree
import Glibc
import Testing

@testable import View

@Suite struct RetryTurnsTests {
  private let turns = RetryTurns()
  private let file = FileIdentity(device: 1, inode: 7)
  private let other = FileIdentity(device: 1, inode: 8)

  /// The kernel tries again once. A rename that is replayed meanwhile would have the client refused again.
  @Test func refusedFile_isAwaitedUntilTheThreadIsServed() {
    #expect(!turns.isAwaited(file))
    turns.noteRefusal(of: file, by: 1)
    #expect(turns.isAwaited(file) && !turns.isAwaited(other))
    turns.noteService(of: 2)
    #expect(turns.isAwaited(file))
    turns.noteService(of: 1)
    #expect(!turns.isAwaited(file))
  }

  @Test func threadThatIsServedNoMore_isAwaitedForAWhile() {
    turns.noteRefusal(of: file, by: 1)
    usleep(600_000)
    #expect(!turns.isAwaited(file))
  }

  /// Else the kernel could walk the path again before it has renamed the dentry.
  @Test func refusal_duringReplayedRename_waitsForItsEnd() {
    turns.beginRename(of: file)
    let thread = Thread { [turns, file] in
      usleep(20_000)
      turns.endRename(of: file)
    }
    for (waited, isExpected) in [(other, false), (file, true), (file, false)] {
      let start = ContinuousClock.now
      turns.noteRefusal(of: waited, by: 1)
      #expect((ContinuousClock.now - start > .milliseconds(10)) == isExpected)
    }
    thread?.join()
  }
}
