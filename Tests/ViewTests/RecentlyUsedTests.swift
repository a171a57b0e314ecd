import Testing

@testable import View

@Suite struct RecentlyUsedTests {
  @Test func oldest_areThoseUsedLongestAgo() {
    var values = RecentlyUsed<String>()
    for id in [1, 2, 3, 5, 6] as [NodeID] { #expect(values.insert("value \(id.slot)", for: id) == nil) }
    #expect(values.use(1) == "value 1")
    #expect(values[2] == "value 2")
    #expect(values.removeOldest(2) == ["value 2", "value 3"])
    #expect(values.use(5) == "value 5")
    #expect(values.removeOldest(2) == ["value 6", "value 1"])
    #expect(values.removeOldest(2) == ["value 5"])
    #expect(values.count == 0)
  }
}
