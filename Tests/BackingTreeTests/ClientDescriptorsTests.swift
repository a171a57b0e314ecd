import Testing

@testable import BackingTree

@Suite struct ClientDescriptorsTests {
  @Test(arguments: [1, 2]) func descriptorQuotas_whenAllAreUsedUp_leaveDescriptorsForOthers(multiple: Int) {
    let descriptors = ClientDescriptors(limit: 1000, multiple: multiple)
    for users in 1...8 {
      var own = Array(repeating: 0, count: users)
      func left() -> Int { 1000 - own.reduce(0, +) }
      var isDone = false
      while !isDone {
        isDone = true
        for user in own.indices where descriptors.allows(own: own[user] + 1, left: left() - 1) {
          own[user] += 1
          isDone = false
        }
      }
      #expect(left() >= 1000 / (multiple * users + 1), "\(users) users")
      #expect(own.allSatisfy { $0 >= 1000 / (users + 1) / 2 }, "\(own)")
    }
  }
}
