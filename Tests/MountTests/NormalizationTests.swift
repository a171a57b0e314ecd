import Glibc
import Testing

/// Decomposed names, as HFS+ stores them.
@Suite(.mounting) struct NormalizationTests {
  private static let (composed, decomposed) = ("Caf\u{e9}", "Cafe\u{301}")

  private func view(_ options: String = "", _ names: String...) throws -> MountedView {
    try MountedView(options) { root in for name in names { try put(name, at: "\(root)/\(name)") } }
  }

  private func realName(_ path: String) -> FileName? {
    attributeBytes("user.displayfs.realname", of: path).map { FileName($0) }
  }

  @Test func decomposedName_isListedComposed_andReachableByBoth() throws {
    let view = try view("", "\(Self.decomposed).txt", "\(Self.decomposed) 2", "\(Self.decomposed)/e\u{301}")
    #expect(view.listing().contains(FileName("\(Self.composed) 2")))
    #expect(view.listing(Self.composed) == ["\u{e9}"])
    #expect(text(view.at("\(Self.composed)/\u{e9}")) == "\(Self.decomposed)/e\u{301}")
    #expect(text(view.at("\(Self.decomposed)/e\u{301}")) == "\(Self.decomposed)/e\u{301}")
    for name in [Self.composed, Self.decomposed] {
      #expect(realName(view.at("\(name) 2")) == FileName("\(Self.decomposed) 2"))
      #expect(attribute("user.displayfs.displayname", of: view.at("\(name) 2"))?.utf8.count == 7)
    }
    #expect(attribute("user.displayfs.reason", of: view.at("\(Self.composed) 2"))?.contains("form C") == true)
  }

  @Test func directoryAndFileWithOneStem_bothShowMore() throws {
    let view = try view("", "\(Self.decomposed).txt", "\(Self.composed).jpg", "\(Self.decomposed).c")
    #expect(
      view.listing() == [
        FileName("\(Self.composed).txt"), FileName("\(Self.composed).jpg"), FileName("\(Self.composed).c"),
      ])
  }

  /// Each pair in any order of events, on either side.
  @Test(arguments: [
    ["\u{e9}", "e\u{301}"], ["\u{d55c}", "\u{1112}\u{1161}\u{11ab}"],
    ["\u{1ea1}\u{307}", "a\u{323}\u{307}", "a\u{307}\u{323}"], ["\u{212b}", "\u{c5}", "A\u{30a}"],
  ])
  func twins_keepBytes_untilOneIsLeft(names: [String]) throws {
    let view = try view()
    let composed = FileName(names.contains("\u{c5}") ? "\u{c5}" : names[0])
    for order in [names, names.reversed()] {
      for name in order { try put(name, at: view.real(name)) }
      #expect(eventually { view.listing() == Set(names.map { FileName($0) }) }, "\(view.listing())")
      for name in names { #expect(text(view.at(name)) == name) }
      for (index, name) in order.enumerated().dropLast() {
        #expect(unlink(index % 2 == 0 ? view.at(name) : view.real(name)) == 0)
        #expect(eventually { !view.listing().contains(FileName(name)) || order.count - index == 2 })
      }
      let last = order.last!
      #expect(eventually { view.listing() == [composed] }, "\(view.listing())")
      #expect(text(view.at("\(composed)")) == last && realName(view.at("\(composed)")) == FileName(last))
      #expect(unlink(view.at("\(composed)")) == 0)
      #expect(view.realListing().isEmpty)
    }
  }

  @Test func rename_ofComposedName_takesTypedName() throws {
    let view = try view("", "\(Self.decomposed) 1", "\(Self.decomposed) 2.txt", "other")
    #expect(rename(view.at("\(Self.composed) 1"), view.at("r\u{e9}sum\u{e9}")) == 0)
    #expect(rename(view.at("\(Self.composed) 2"), view.at("e\u{301}")) == 0)
    #expect(view.realListing() == ["r\u{e9}sum\u{e9}", "e\u{301}.txt", "other"])
    // In place of another: that keeps its bytes.
    #expect(rename(view.at("other"), view.at("\u{e9}.txt")) == 0)
    #expect(view.realListing() == ["r\u{e9}sum\u{e9}", "e\u{301}.txt"])
    #expect(text(view.at("\u{e9}")) == "other")
    // Both names are its own.
    #expect(rename(view.at("\u{e9}"), view.at("e\u{301}.txt")) == 0)
    #expect(view.realListing() == ["r\u{e9}sum\u{e9}", "e\u{301}.txt"])
  }

  @Test func newEntry_getsTypedBytes() throws {
    let view = try view()
    try put("x", at: view.at("e\u{301}"))
    #expect(mkdir(view.at("o\u{308}"), 0o755) == 0)
    #expect(view.realListing() == ["e\u{301}", "o\u{308}"] && view.listing() == ["\u{e9}", "\u{f6}"])
    #expect(text(view.at("\u{e9}")) == "x")
  }

  @Test func options_decideWhetherNamesAreComposed() throws {
    let view = try view("normalization=off", Self.decomposed)
    #expect(view.listing() == [FileName(Self.decomposed)])
    #expect(Displayfs.run(["set", view.mountPoint, "normalization=nfc"]).status == 0)
    #expect(eventually { view.listing() == [FileName(Self.composed)] })
    #expect(text(view.at(Self.composed)) == Self.decomposed)
    #expect(Displayfs.run(["set", view.mountPoint, "normalization=off", "matching=exact"]).status == 0)
    #expect(eventually { view.listing() == [FileName(Self.decomposed)] && !isThere(view.at(Self.composed)) })
    view.unmount()
    try view.mount("profile=none")
    #expect(view.listing() == [FileName(Self.decomposed)] && !isThere(view.at(Self.composed)))
  }

  @Test func contentOfPackage_isShownAsOnDisk() throws {
    let view = try view("", "Cafe\u{301}.rtfd/e\u{301}")
    #expect(view.listing() == ["Caf\u{e9}"])
    #expect(view.listing("Cafe\u{301}.rtfd") == ["e\u{301}"])
    #expect(text(view.at("Cafe\u{301}.rtfd/\u{e9}")) == "Cafe\u{301}.rtfd/e\u{301}")
    // The composed real name is no name of the package, and leads to the directory.
    #expect(
      status(view.at("Caf\u{e9}"))?.isRegular == true
        && status(view.at("Caf\u{e9}.rtfd"))?.isDirectory == true)
  }

  @Test func namesOfAnyLength_areReachable() throws {
    // 255 bytes, of which 170 are left; and 255 that would become 510.
    let (shorter, longer) = (
      String(repeating: "e\u{301}", count: 85), String(repeating: "\u{958}", count: 85)
    )
    let view = try view("", shorter, longer)
    let composed = String(repeating: "\u{e9}", count: 85)
    #expect(view.listing() == [FileName(composed), FileName(longer)])
    #expect(text(view.at(composed)) == shorter && text(view.at(longer)) == longer)
    #expect(realName(view.at(composed)) == FileName(shorter))
    // 510 bytes that are equal to 255.
    let other = String(repeating: "\u{915}\u{93c}", count: 85)
    #expect(text(view.at(other)) == longer)
    #expect(failure { mkdir(view.at(other), 0o755) } == .fileExists)
    #expect(failure { mkdir(view.at(other + "x"), 0o755) } == .fileNameTooLong)
  }

  @Test func nameThatIsNotUTF8_staysAsItIs() throws {
    let view = try view()
    let name = FileName(Array("e\u{301}".utf8) + [0xff])
    let outcome = view.shell(#"printf x >"$SOURCE/$(printf 'e\314\201\377')""#)
    #expect(outcome.status == 0 && eventually { view.listing() == [name] })
    #expect(view.shell(#"cat "$(printf '\303\251\377')""#).status != 0)
    #expect(view.shell(#"cat "$(printf 'e\314\201\377')""#).text == "x")
  }

  @Test func sidecar_travelsWithDecomposedFile() throws {
    let view = try view()
    try put("data", at: view.real("e\u{301}"))
    try put([0, 5, 0x16, 7, 0, 2, 0, 0] + [UInt8](repeating: 0, count: 76), at: view.real("._e\u{301}"))
    #expect(eventually { view.listing() == ["\u{e9}"] })
    #expect(rename(view.at("\u{e9}"), view.at("b")) == 0)
    #expect(view.realListing() == ["b", "._b"])
    #expect(unlink(view.at("b")) == 0 && view.realListing().isEmpty)
  }

  @Test func linkByComposedName_takesTypedName() throws {
    let view = try view("", "e\u{301}", "o\u{308}.txt")
    #expect(link(view.at("\u{e9}"), view.at("copy")) == 0 && link(view.at("\u{f6}"), view.at("other")) == 0)
    #expect(view.realListing() == ["e\u{301}", "copy", "o\u{308}.txt", "other.txt"])
  }
}
