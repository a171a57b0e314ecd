import Testing

@testable import View

@Suite struct RemoteMountsTests {
  /// Two threads read the clock, and the earlier reading arrives last: the difference of unsigned times trapped and ended the
  /// daemon.
  @Test func contain_atEarlierTimeThanLastCall_returnsCachedResult() {
    let mounts = RemoteMounts(home: 1)
    let device: UInt64 = 1 << 40
    #expect(!mounts.contains(device, now: 2_000_000_000))
    #expect(!mounts.contains(device, now: 1_999_999_999))
    #expect(!mounts.contains(device, now: 0))
  }
}
