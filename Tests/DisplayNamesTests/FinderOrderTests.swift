import DisplayNames
import Testing

/// Without a locale: with one, the C library decides (`ls_sortsByLanguage`).
@Suite struct FinderOrderTests {
  private func expectOrder(_ names: Name..., locale: String? = nil) {
    for _ in 0..<4 { #expect(FinderOrder(locale: locale).sorted(names.shuffled()) { $0 } == names) }
  }

  @Test(arguments: [nil, "C", "POSIX", "C.UTF-8", "no_SUCH.UTF-8"]) func numbers_countByValue(locale: String?)
  {
    expectOrder(
      "a", "a0", "a01", "a1", "a2", "A9", "a10", "a10b", "a11", "a99999999999999999999999", "b1",
      locale: locale)
  }

  @Test func letters_areComparedBeforeMarksAndCase() {
    expectOrder("cote", "Cote", "cot\u{e9}", "c\u{f4}te", "cotf")
    expectOrder("a", "A", "\u{e4}b", "ac", "b", "B", "Z")
  }

  @Test func equalNames_areOrderedByBytes() { expectOrder("e\u{301}", "\u{e9}", "f") }

  @Test func namesThatAreNoUTF8_haveAPlace() { expectOrder("a", Name([0x61, 0xe9]), "b") }

  @Test func longestNumbers_areCompared() {
    let nines = String(repeating: "9", count: 254)
    expectOrder(Name("1" + nines.dropLast()), Name(nines), Name("1" + nines))
  }
}
