import Testing

@testable import FuseServer

@Suite struct SmallFileWritersTests {
  @Test func thread_isExpectedToGoOnAfterEnoughSmallFilesInARow() {
    var writers = SmallFileWriters()
    for _ in 1..<SmallFileWriters.enough {
      writers.noteFile(isSmall: true, by: 7)
      #expect(!writers.contains(7))
    }
    writers.noteFile(isSmall: true, by: 7)
    #expect(writers.contains(7))
    for _ in 0..<1000 { writers.noteFile(isSmall: true, by: 7) }
    #expect(writers.contains(7))
    writers.noteFile(isSmall: false, by: 7)
    #expect(!writers.contains(7))
    writers.noteFile(isSmall: true, by: 7)
    #expect(!writers.contains(7))
  }

  @Test func otherThread_doesNotInheritTheExpectation() {
    var writers = SmallFileWriters()
    for _ in 0..<SmallFileWriters.enough { writers.noteFile(isSmall: true, by: 7) }
    // 263 has the place of 7.
    #expect(!writers.contains(8) && !writers.contains(263) && !writers.contains(0))
    writers.noteFile(isSmall: true, by: 263)
    #expect(!writers.contains(263) && !writers.contains(7))
  }
}
