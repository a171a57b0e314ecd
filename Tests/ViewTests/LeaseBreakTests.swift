import Glibc
import SystemPackage
import Testing

@testable import View

@Suite(.serialized) struct LeaseBreakTests {
  /// Waits, and waits some more times meanwhile. - Returns: the error of each, the innermost last.
  private func wait(_ count: Int) -> [Errno] {
    var inner: [Errno] = []
    do throws(Errno) {
      try LeaseBreak.retry(O_RDONLY) {
        if count > 1 { inner = wait(count - 1) }
        return true
      } _: { () throws(Errno) in
        throw .wouldBlock
      }
    } catch { return [error] + inner }
    return []
  }

  @Test func openBeyondThoseThatMayWait_failsAtOnce() {
    for _ in 0..<2 {
      #expect(wait(5) == Array(repeating: .interrupted, count: 4) + [.wouldBlock])
    }
  }

  @Test func openThatSucceedsLater_isNoError() throws {
    var tries = 0
    let tried = try LeaseBreak.retry(O_RDWR, { false }) { () throws(Errno) in
      tries += 1
      if tries < 3 { throw .wouldBlock }
      return tries
    }
    #expect(tried == 3)
  }

  @Test func otherErrorsAndNonblockingOpens_areNotRetried() {
    #expect(throws: Errno.permissionDenied) {
      try LeaseBreak.retry(O_RDONLY, { false }) { () throws(Errno) in throw .permissionDenied }
    }
    #expect(throws: Errno.wouldBlock) {
      try LeaseBreak.retry(O_RDONLY | O_NONBLOCK, { false }) { () throws(Errno) in throw .wouldBlock }
    }
  }
}
