import Glibc
import SystemPackage
import Testing

@testable import View

@Suite(.serialized) struct LeaseBreakTests {
  @Test func open_succeedingOnRetry_succeeds() throws {
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
