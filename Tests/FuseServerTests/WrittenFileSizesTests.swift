import Testing

@testable import FuseServer

@Suite struct WrittenFileSizesTests {
  private func sizes(_ recorded: [Int64], by thread: Int32 = 7) -> WrittenFileSizes {
    var sizes = WrittenFileSizes()
    for size in recorded { sizes.record(size, by: thread) }
    return sizes
  }

  @Test func enoughSmallFiles_predictSmallOne() {
    #expect(sizes([0, 4096, 1, WrittenFileSizes.small]).isNextSmall(by: 7))
    #expect(!sizes([0, 4096, 1]).isNextSmall(by: 7))
    #expect(!sizes([]).isNextSmall(by: 7))
  }

  @Test func largeFile_endsPrediction() {
    #expect(!sizes([1, 1, 1, 1, WrittenFileSizes.small + 1]).isNextSmall(by: 7))
    #expect(!sizes([1, 1, 1, 1, 1 << 40, 1, 1, 1]).isNextSmall(by: 7))
    #expect(sizes([1, 1, 1, 1, 1 << 40, 1, 1, 1, 1]).isNextSmall(by: 7))
  }

  @Test func otherThreads_areNotPredicted() {
    // 71 shares a place with 7.
    for thread: Int32 in [8, 71, 0, -1] { #expect(!sizes([1, 1, 1, 1]).isNextSmall(by: thread)) }
    var shared = sizes([1, 1, 1, 1])
    shared.record(1, by: 71)
    #expect(!shared.isNextSmall(by: 7) && !shared.isNextSmall(by: 71))
  }

  @Test func unseenThread_isIgnored() {
    #expect(!sizes([1, 1, 1, 1], by: 0).isNextSmall(by: 0))
  }
}
