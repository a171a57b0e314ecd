import Testing

@testable import View

@Suite struct NodeMapTests {
  @Test func valuesInsertedAndRemovedAtRandom_areThoseOfADictionary() {
    var map = NodeMap<Int>()
    var expected: [NodeID: Int] = [:]
    var generator = SystemRandomNumberGenerator()
    for step in 0..<20_000 {
      // Few numbers, so that runs of cells form and break up.
      let id = NodeID(UInt32.random(in: 1...300, using: &generator))
      if Bool.random(using: &generator) {
        #expect(map.insert(step, for: id) == expected.updateValue(step, forKey: id))
      } else {
        #expect(map.remove(id) == expected.removeValue(forKey: id))
      }
    }
    #expect(map.count == expected.count)
    for slot in 0...301 as ClosedRange<UInt32> { #expect(map[NodeID(slot)] == expected[NodeID(slot)]) }
    #expect(Dictionary(uniqueKeysWithValues: map.all.map { ($0.id, $0.value) }) == expected)
  }

  @Test func value_isChangedInPlace() {
    var map = NodeMap<[Int]>()
    #expect(map.withValue(of: 7) { $0.append(1) } == nil)
    map.insert([], for: 7)
    #expect(map.withValue(of: 7) { $0.append(1) } != nil)
    #expect(map[7] == [1])
  }
}
