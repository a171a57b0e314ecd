import Testing

@testable import FuseServer

@Suite struct FirstInFirstOutTests {
  @Test func elements_areRemovedInInsertionOrder() {
    var queue = FirstInFirstOut<Int>()
    var added = 0
    var taken: [Int] = []
    for round in 1...50 {
      for _ in 0..<round {
        queue.append(added)
        added += 1
      }
      for _ in 0..<(round / 2) { taken.append(queue.removeFirst()) }
    }
    #expect(queue.count == added - taken.count)
    taken += queue.removeAll()
    #expect(queue.isEmpty)
    #expect(taken == Array(0..<added))
  }
}
