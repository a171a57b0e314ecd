import Glibc
import Testing

@testable import BackingTree

@Suite struct ProcessorShareTests {
  @Test func niceIncrement_dividesShareByRank() {
    #expect([1, 2, 4, 8, 16, 32].map(ProcessorShare.niceIncrement(ofRank:)) == [0, 4, 7, 10, 13, 16])
    #expect(ProcessorShare.niceIncrement(ofRank: 1 << 40) == ProcessorShare.niceIncrement(ofRank: 100))
  }

  @Test(.enabled(if: geteuid() == 0, "lowering a nice value takes a privilege"))
  func run_whileSameUserComputes_lowersPriorityAndRestoresIt() {
    // User ids for which no other thread computes.
    let (user, other) = (Int64(1) << 40, Int64(1) << 41)
    let before = Thread.nice
    ProcessorShare.run(of: user) {
      #expect(Thread.nice == before)
      ProcessorShare.run(of: user) {
        #expect(Thread.nice == min(before + 4, 19))
        let lowered = Thread.nice
        ProcessorShare.run(of: other) { #expect(Thread.nice == lowered) }
      }
      #expect(Thread.nice == before)
    }
    ProcessorShare.run(of: user) { #expect(Thread.nice == before) }
    ProcessorShare.run(of: -1) { ProcessorShare.run(of: -1) { #expect(Thread.nice == before) } }
  }

  @Test(.enabled(if: geteuid() == 0, "lowering a nice value takes a privilege"))
  func run_afterError_restoresPriority() {
    struct Failure: Error {}
    let before = Thread.nice
    ProcessorShare.run(of: 1 << 42) {
      _ = try? ProcessorShare.run(of: 1 << 42) { throw Failure() }
      #expect(Thread.nice == before)
    }
  }
}
