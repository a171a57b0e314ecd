import Testing

@testable import FuseServer

/// After how long the kernel aborts a connection, by the two sysctls.
@Suite struct RequestTimeoutTests {
  @Test func zero_isNoTimeout() {
    #expect(RequestTimeout.seconds(default: 0, maximum: 0) == nil)
  }

  @Test func shorterValue_counts() {
    #expect(RequestTimeout.seconds(default: 60, maximum: 0) == 60)
    #expect(RequestTimeout.seconds(default: 0, maximum: 600) == 600)
    #expect(RequestTimeout.seconds(default: 60, maximum: 600) == 60)
    #expect(RequestTimeout.seconds(default: 600, maximum: 60) == 60)
  }

  @Test func shortValue_isTimeBetweenTwoLooks() {
    #expect(RequestTimeout.seconds(default: 1, maximum: 0) == 15)
  }
}
