import Testing

@testable import DisplayNames

/// Composed and decomposed names, and names that differ in case, in one directory.
@Suite struct ProjectionMatchingTests {
  typealias Child = Projection.Child

  private static let (nfc, nfd): (Name, Name) = ("\u{e9}", "e\u{301}")

  private func file(_ name: Name, stem: Int? = nil, hidden: HiddenReason? = nil) -> Child {
    Child(realName: name, kind: .file, inode: 1, hidden: hidden, stemLength: stem)
  }

  private func projection(_ matching: NameMatching, composes: Bool = true, _ children: [Child]) -> Projection
  {
    var projection = Projection(matching: matching, composes: composes)
    for child in children { projection.upsert(child) }
    return projection
  }

  private func listing(_ projection: borrowing Projection) -> [Name: Name] {
    var result: [Name: Name] = [:]
    for slot in 0..<projection.slotLimit where projection.summary(at: slot)?.isHidden == false {
      result[projection.realName(at: slot)] = projection.displayName(at: slot)
    }
    return result
  }

  private func listing(composes: Bool = true, _ names: Name...) -> [Name: Name] {
    listing(projection(.exact, composes: composes, names.map { file($0) }))
  }

  /// The real name that a name matches; nil for none or several.
  private func match(_ name: Name, _ matching: NameMatching, composes: Bool = true, _ names: Name...) -> Name?
  {
    let projection = projection(matching, composes: composes, names.map { file($0) })
    guard projection.resolve(name.bytes.span) == nil,
      case .one(let found) = projection.matches(of: name.bytes.span)
    else { return nil }
    #expect(found.isMatch)
    return projection.realName(at: found.slot)
  }

  // MARK: Shown names

  @Test func decomposedName_alone_isShownComposed() {
    #expect(listing(Self.nfd) == [Self.nfd: Self.nfc])
    #expect(listing(composes: false, Self.nfd) == [Self.nfd: Self.nfd])
    #expect(
      listing(projection(.exact, [file("e\u{301}.txt", stem: 3)])) == ["e\u{301}.txt": Self.nfc])
    // Hangul, and marks in another order than Unicode's.
    #expect(listing("\u{1112}\u{1161}\u{11ab}") == ["\u{1112}\u{1161}\u{11ab}": "\u{d55c}"])
    #expect(listing("a\u{307}\u{323}") == ["a\u{307}\u{323}": "\u{1ea1}\u{307}"])
  }

  @Test func twins_keepTheirBytes() {
    #expect(listing(Self.nfd, Self.nfc) == [Self.nfd: Self.nfd, Self.nfc: Self.nfc])
    let three: [Name] = ["\u{1ea1}\u{307}", "a\u{307}\u{323}", "a\u{323}\u{307}"]
    #expect(
      listing(three[0], three[1], three[2]) == [three[0]: three[0], three[1]: three[1], three[2]: three[2]])
    #expect(listing(three[1], three[2]) == [three[1]: three[1], three[2]: three[2]])
  }

  @Test func twinsWithHiddenExtensions_fallBackStepByStep() {
    // The stems clash; one real name is the other's composed one.
    let names = listing(projection(.exact, [file("e\u{301}.txt", stem: 3), file("\u{e9}.txt", stem: 2)]))
    #expect(names == ["e\u{301}.txt": "e\u{301}.txt", "\u{e9}.txt": "\u{e9}.txt"])
    let others = listing(projection(.exact, [file("e\u{301}.txt", stem: 3), file("\u{e9}.pdf", stem: 2)]))
    #expect(others == ["e\u{301}.txt": "\u{e9}.txt", "\u{e9}.pdf": "\u{e9}.pdf"])
  }

  @Test func nameThatIsTooLongWhenComposed_keepsItsBytes() {
    // U+0958 is three bytes, and six when composed.
    let long = Name(String(repeating: "\u{958}", count: 85))
    #expect(long.bytes.count == 255 && long.composed.bytes.count == 510)
    #expect(listing(long) == [long: long])
    let short = Name(String(repeating: "e\u{301}", count: 85))
    #expect(short.bytes.count == 255 && listing(short)[short]?.bytes.count == 170)
  }

  @Test func nameThatIsNotUTF8_keepsItsBytes() {
    let name = Name(Self.nfd.bytes + [0xff])
    #expect(listing(name) == [name: name])
    #expect(match(Name(Self.nfc.bytes + [0xff]), .caseless, name) == nil)
  }

  @Test func composedLocalizedName_isCountedAsOwn() {
    var child = file("E\u{301}diteur.app", stem: 9)
    child.localized = "\u{c9}diteur"
    let projection = projection(.exact, [child])
    #expect(projection.displayName(at: 0) == "\u{c9}diteur" && projection.rung(of: 0) == .extensionHidden)
  }

  @Test func childThatIsShownOtherwise_keepsItsSlotAndNames() {
    var projection = projection(.canonical, composes: false, [file(Self.nfd), file("a")])
    #expect(projection.displayName(at: 0) == Self.nfd)
    projection.change(matching: .caseless, composes: true)
    #expect(projection.upsert(file(Self.nfd)) == 0 && projection.displayName(at: 0) == Self.nfc)
    let uppercase: Name = "\u{c9}"
    var matches = projection.matches(of: uppercase.bytes.span)
    #expect(matches != .none)
    #expect(projection.upsert(file(Self.nfd, hidden: .configured)) == 0)
    #expect(projection.upsert(file(Self.nfd)) == 0 && projection.displayName(at: 0) == Self.nfc)
    #expect(projection.displayName(at: 1) == "a")
    projection.remove(realName: Self.nfd)
    let nfc = Self.nfc
    matches = projection.matches(of: nfc.bytes.span)
    #expect(matches == .none)
  }

  // MARK: Matches

  @Test func canonicalEquivalent_resolvesUnlessSeveralDo() {
    #expect(match(Self.nfc, .canonical, composes: false, Self.nfd) == Self.nfd)
    #expect(match(Self.nfd, .canonical, Self.nfc) == Self.nfc)
    #expect(match(Self.nfd, .exact, Self.nfc) == nil)
    #expect(match("E\u{301}", .canonical, Self.nfc) == nil)
    let third: Name = "a\u{307}\u{323}"
    #expect(match(third, .canonical, "\u{1ea1}\u{307}") == "\u{1ea1}\u{307}")
    #expect(match(third, .canonical, "\u{1ea1}\u{307}", "a\u{323}\u{307}") == nil)
  }

  @Test func caselessMatch_resolvesUnlessSeveralDo() {
    #expect(match("readme", .caseless, "README") == "README")
    #expect(match("README", .caseless, "readme") == "readme")
    #expect(match("ReadMe", .caseless, "README", "readme") == nil)
    #expect(match("STRASSE", .caseless, "Stra\u{df}e") == "Stra\u{df}e")
    #expect(match("stra\u{1e9e}e", .caseless, "STRASSE") == "STRASSE")
    #expect(match("\u{130}", .caseless, "i\u{307}") == "i\u{307}")
    #expect(match("i", .caseless, "\u{130}") == nil && match("i", .caseless, "\u{131}") == nil)
    #expect(match("ΟΔΟΣ", .caseless, "οδος") == "οδος")
    #expect(match("file", .caseless, "ﬁle") == "ﬁle")
    #expect(match("readme", .canonical, "README") == nil)
  }

  @Test func hiddenName_matches() {
    let projection = projection(.caseless, [file("Secret", hidden: .configured)])
    let uppercase: Name = "SECRET"
    guard case .one(let found) = projection.matches(of: uppercase.bytes.span) else {
      Issue.record("no match")
      return
    }
    #expect(!found.byDisplayName)
  }

  /// Names that differ in case alone, made by a hostile user, cost what others do.
  @Test func namesOfOneForm_costWhatOthersDo() {
    let other: Name = "aAAAAAAAAAAAAAAx.txt"
    func duration(isOneForm: Bool) -> Duration {
      let names = (0..<30_000).map { number -> Name in
        let letters = (0..<15).map { UInt8(ascii: number >> $0 & 1 == 1 ? "A" : "a") }
        return Name(letters + Array(isOneForm ? "x.txt".utf8 : "\(number).txt".utf8))
      }
      return ContinuousClock().measure {
        var filling = ProjectionFilling(count: names.count, matching: .caseless)
        for name in names {
          filling.add(
            name.bytes.span, kind: .file, inode: 1, entryType: 0, hidden: nil,
            stemLength: name.bytes.count - 4)
        }
        var projection = filling.finish()
        for name in names.dropLast() {
          projection.remove(realName: name)
          projection.upsert(file(name, stem: name.bytes.count - 4))
          _ = projection.hasMatch(of: other.bytes.span, besides: [name])
          projection.remove(realName: name)
        }
        let isMatched = projection.hasMatch(of: other.bytes.span, besides: [])
        #expect(projection.count == 1 && isMatched == isOneForm)
      }
    }
    #expect(duration(isOneForm: true) < duration(isOneForm: false) * 3)
  }

  private static let letters = ["\u{e9}", "e\u{301}", "\u{c9}", "E\u{301}", "a", "A", "ss", "\u{df}"]
  private static let extensions = ["", ".x", ".X", ".\u{301}"]

  private func randomChild(_ name: Name, _ stem: Int?, _ random: inout SplitMix) -> Child {
    var child = file(name, stem: stem)
    if random.next() % 4 == 0 {
      child.localized =
        Name(Self.letters[Int(random.next() % 8)] + Self.extensions[Int(random.next() % 3)]).composed
    }
    if random.next() % 8 == 0 { child.hidden = .configured }
    if child.hidden != nil { (child.localized, child.stemLength) = (nil, nil) }
    let stem = child.stemLength.map { Name(name.bytes.prefix($0)) }
    if child.localized == name || child.localized == stem { child.localized = nil }
    return child
  }

  @Test(arguments: 0..<40 as Range<UInt64>)
  func projection_afterAnyHistory_agreesWithSlowOne(seed: UInt64) {
    var random = SplitMix(state: seed)
    let matching = NameMatching.allCases[Int(seed % 3)]
    let composes = seed % 2 == 0
    var projection = Projection(matching: matching, composes: composes)
    var children: [Name: Child] = [:]
    let universe = Self.letters.flatMap { letter in Self.extensions.map { Name(letter + $0) } }
    for step in 0..<120 {
      let stem = Self.letters[Int(random.next() % 8)]
      let ext = Self.extensions[Int(random.next() % 4)]
      let name = Name(stem + ext)
      if random.next() % 3 == 0 {
        projection.remove(realName: name)
        children[name] = nil
      } else {
        let child = randomChild(
          name, ext.isEmpty || random.next() % 4 == 0 ? nil : stem.utf8.count, &random)
        projection.upsert(child)
        children[name] = child
      }
      let shown = listing(projection)
      let expected = ProjectionTests().oracle(Array(children.values), composes: composes)
      #expect(shown == expected, "seed \(seed), step \(step)")
      for name in universe where projection.resolve(name.bytes.span) == nil {
        let expected = slowMatches(of: name, matching, Array(children.keys), shown)
        let found: [Name]? =
          switch projection.matches(of: name.bytes.span) {
          case .none: []
          case .one(let match): [projection.realName(at: match.slot)]
          case .several: nil
          }
        #expect(found == (expected.count > 1 ? nil : expected), "seed \(seed), step \(step): \(name)")
        for others in [[], Array(expected.prefix(1)), Array(expected.prefix(2)), [universe[0], name]] {
          #expect(
            projection.hasMatch(of: name.bytes.span, besides: others)
              == !Set(expected).subtracting(others).isEmpty, "seed \(seed), step \(step): \(name)")
        }
        let listed = expected.filter { shown[$0] != nil }
        let foundListed: [Name]? =
          switch projection.matches(of: name.bytes.span, includingHidden: false) {
          case .none: []
          case .one(let match): [projection.realName(at: match.slot)]
          case .several: nil
          }
        #expect(foundListed == (listed.count > 1 ? nil : listed), "seed \(seed), step \(step): \(name)")
      }
    }
  }

  /// The real names of all children that a name matches.
  private func slowMatches(
    of name: Name, _ matching: NameMatching, _ real: [Name], _ shown: [Name: Name]
  ) -> [Name] {
    guard matching.mayMatch(name.bytes.span) else { return [] }
    let form = matching.sharedForm(of: name)
    return real.filter { real in
      matching.sharedForm(of: real) == form
        || shown[real].map { matching.sharedForm(of: $0) == form } ?? false
    }
  }

  @Test(arguments: NameMatching.allCases, [false, true])
  func projectionFilling_equalsSingleUpserts(matching: NameMatching, composes: Bool) {
    var filling = ProjectionFilling(count: 10, matching: matching, composes: composes)
    var alone = Projection(matching: matching, composes: composes)
    let names = Self.letters.flatMap { a in
      Self.letters.flatMap { b in Self.extensions.map { (a + b, $0) } }
    }
    var random = SplitMix(state: 3)
    for (stem, ext) in names.shuffled(using: &random).prefix(90) {
      let child = file(
        Name(stem + ext), stem: ext.isEmpty ? nil : stem.utf8.count,
        hidden: random.next() % 8 == 0 ? .configured : nil)
      let stemLength = child.hidden == nil ? child.stemLength : nil
      alone.upsert(file(child.realName, stem: stemLength, hidden: child.hidden))
      filling.add(
        child.realName.bytes.span, kind: .file, inode: 1, entryType: 0, hidden: child.hidden,
        stemLength: stemLength)
    }
    let filled = filling.finish()
    #expect(listing(filled) == listing(alone))
    for (stem, ext) in names {
      let name = Name(stem + ext)
      let (a, b) = (filled.matches(of: name.bytes.span), alone.matches(of: name.bytes.span))
      switch (a, b) {
      case (.one(let a), .one(let b)): #expect(filled.realName(at: a.slot) == alone.realName(at: b.slot))
      default: #expect(a == b)
      }
    }
  }
}
