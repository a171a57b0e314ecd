import Testing

@testable import View

/// What the kernel is known to have forgotten, whatever it asks for meanwhile.
@Suite struct NamesKnownTests {
  private func expectStart(
    _ name: GivenNames, _ expected: Bool, _ names: inout NamesKnown, _ comment: Comment? = nil
  ) {
    let hasStarted = names.startTakingBack(name)
    #expect(hasStarted == expected, comment)
  }

  @Test func aNameThatWasTakenBackIsForgotten() {
    var names = NamesKnown(.display)
    expectStart(.display, false, &names, "it is the only one")
    names.give(.real)
    #expect(names.given.areSeveral)
    expectStart(.display, true, &names)
    #expect(names.given.areSeveral, "nobody knows when it is told")
    names.tookBack(.display)
    #expect(names.given == .real && names.wereSeveral)
  }

  @Test func aNameThatWasGivenAgainMayBeKnown() {
    var names = NamesKnown(.display)
    names.give(.real)
    expectStart(.display, true, &names)
    names.give(.display)
    expectStart(.display, false, &names, "the first time is not over, and would be taken for this one")
    names.tookBack(.display)
    #expect(names.given.areSeveral)
    expectStart(.display, true, &names)
    names.tookBack(.display)
    #expect(names.given == .real)
  }

  @Test func bothMayBeTakenBackAtOnce() {
    var names = NamesKnown(.display)
    names.give(.real)
    expectStart(.display, true, &names)
    names.give(.real)
    expectStart(.real, true, &names)
    names.tookBack(.display)
    names.tookBack(.real)
    #expect(names.given == [])
  }

  @Test func aRenameLeavesOneNameThatMayBeKnown() {
    var names = NamesKnown(.display)
    names.give(.real)
    expectStart(.display, true, &names)
    names.giveOnly(.display)
    #expect(names.given == .display)
    names.tookBack(.display)
    #expect(names.given == .display)
  }

  @Test func whatNobodyTookBackStays() {
    var names = NamesKnown(.real)
    names.tookBack(.real)
    #expect(names.given == .real && !names.wereSeveral)
  }
}
