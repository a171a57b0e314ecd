import Testing

@testable import DisplayNames

@Suite struct ProjectionTests {
  typealias Child = Projection.Child

  private func file(_ name: Name, stem: Int? = nil, localized: Name? = nil, hidden: HiddenReason? = nil)
    -> Child
  {
    Child(realName: name, kind: .file, inode: 1, hidden: hidden, localized: localized, stemLength: stem)
  }

  private func listing(_ children: [Child]) -> [Name: Name] {
    var projection = Projection()
    for child in children { projection.upsert(child) }
    return listing(projection)
  }

  private func listing(_ projection: borrowing Projection) -> [Name: Name] {
    var result: [Name: Name] = [:]
    for slot in 0..<projection.slotLimit where projection.summary(at: slot)?.isHidden == false {
      result[projection.realName(at: slot)] = projection.displayName(at: slot)
    }
    return result
  }

  @Test func loneEntry_isShownUnderFirstRung() {
    #expect(listing([file("a.txt", stem: 1)]) == ["a.txt": "a"])
    #expect(
      listing([file("Calculator.app", stem: 10, localized: "Rechner")]) == ["Calculator.app": "Rechner"])
    #expect(listing([file("README")]) == ["README": "README"])
  }

  @Test func entriesWithSameStem_keepExtensions() {
    #expect(
      listing([file("cat.doc", stem: 3), file("cat.jpg", stem: 3)]) == [
        "cat.doc": "cat.doc", "cat.jpg": "cat.jpg",
      ])
  }

  @Test func entryWithContestedRealName_keepsIt() {
    #expect(
      listing([file("same"), file("same.txt", stem: 4), file("same.md", stem: 4)])
        == ["same": "same", "same.txt": "same.txt", "same.md": "same.md"])
  }

  @Test func hiddenEntry_reservesItsName() {
    #expect(
      listing([file("a", hidden: .finderInvisible), file("a.txt", stem: 1)]) == ["a.txt": "a.txt"])
  }

  @Test func clashingLocalizedNames_fallToNextRungTogether() {
    #expect(
      listing([file("Public", localized: "Delad"), file("Shared", localized: "Delad")])
        == ["Public": "Public", "Shared": "Shared"])
    #expect(
      listing([
        file("A.app", stem: 1, localized: "X"), file("B.app", stem: 1, localized: "X"),
        file("A.rtf", stem: 1),
      ])
        == ["A.app": "A.app", "B.app": "B", "A.rtf": "A.rtf"])
  }

  @Test func localizedEntry_leavesItsStemToOthers() {
    #expect(
      listing([file("Calculator.app", stem: 10, localized: "Rechner"), file("Calculator.txt", stem: 10)])
        == ["Calculator.app": "Rechner", "Calculator.txt": "Calculator"])
  }

  @Test func displayName_whenRivalIsRemoved_returns() {
    var projection = Projection()
    for child in [file("cat.doc", stem: 3), file("cat.jpg", stem: 3)] { projection.upsert(child) }
    projection.remove(realName: "cat.jpg")
    #expect(listing(projection) == ["cat.doc": "cat"])
  }

  @Test func upsert_ofKnownChild_keepsItsSlot() {
    var projection = Projection()
    projection.upsert(file("a.txt", stem: 1))
    let slot = projection.upsert(file("b.txt", stem: 1))
    projection.remove(realName: "a.txt")
    #expect(projection.upsert(file("b.txt", hidden: .configured)) == slot)
    #expect(projection.summary(at: slot)?.isHidden == true)
  }

  /// A slow reference implementation of the rule: add claims until no child owes one.
  func oracle(_ children: [Child], composes: Bool = false) -> [Name: Name] {
    func shown(_ name: Name) -> Name { composes ? name.composed : name }
    let rungs = children.map { child -> [Name] in
      guard child.hidden == nil else { return [child.realName] }
      var rungs = [
        child.localized, child.stemLength.map { shown(Name(child.realName.bytes.prefix($0))) },
        shown(child.realName), child.realName,
      ].compactMap(\.self)
      // Each name once.
      for index in rungs.indices.reversed() where rungs[..<index].contains(rungs[index]) {
        rungs.remove(at: index)
      }
      return rungs
    }
    var level = children.map { _ in 0 }
    var changed = true
    while changed {
      changed = false
      for (index, child) in children.enumerated()
      where child.hidden == nil && level[index] < rungs[index].count - 1 {
        let name = rungs[index][level[index]]
        let isContested = children.indices.contains { other in
          guard other != index else { return false }
          if children[other].realName == name { return true }
          guard children[other].hidden == nil else { return false }
          if shown(children[other].realName) == name { return true }
          return rungs[other][...min(level[other], rungs[other].count - 1)].dropLast(
            level[other] == rungs[other].count - 1 ? 1 : 0
          ).contains(name)
        }
        if isContested {
          level[index] += 1
          changed = true
        }
      }
    }
    var result: [Name: Name] = [:]
    for (index, child) in children.enumerated() where child.hidden == nil {
      result[child.realName] = rungs[index][level[index]]
    }
    return result
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func projection_afterAnyHistory_dependsOnChildrenOnly(seed: UInt64) {
    var random = SplitMix(state: seed)
    var projection = Projection()
    var children: [Name: Child] = [:]
    // Few letters, so that names clash often.
    let letters = ["a", "b", "c"]
    for step in 0..<300 {
      let stem = letters[Int(random.next() % 3)]
      let ext = ["", ".x", ".y", ".z"][Int(random.next() % 4)]
      let name = Name(stem + ext)
      if random.next() % 3 == 0 {
        projection.remove(realName: name)
        children[name] = nil
      } else {
        var child = file(name, stem: ext.isEmpty || random.next() % 4 == 0 ? nil : stem.utf8.count)
        if random.next() % 3 == 0 {
          child.localized = Name(letters[Int(random.next() % 3)] + ["", ".x"][Int(random.next() % 2)])
        }
        if random.next() % 8 == 0 { child.hidden = .configured }
        if child.hidden != nil {
          child.localized = nil
          child.stemLength = nil
        }
        if child.localized == name || child.localized == child.stemLength.map({ Name(name.bytes.prefix($0)) })
        {
          child.localized = nil
        }
        projection.upsert(child)
        children[name] = child
      }
      let shown = listing(projection)
      #expect(shown == oracle(Array(children.values)), "seed \(seed), step \(step)")
      // Nothing is lost, and every listed and every real name stands for exactly one entry.
      #expect(Set(shown.values).count == shown.count, "seed \(seed), step \(step)")
      for (real, display) in shown {
        #expect(display == real || children[display] == nil, "seed \(seed), step \(step)")
        let resolution = projection.resolve(display.bytes.span)
        #expect(
          resolution.map { projection.realName(at: $0.slot) } == real && resolution?.byDisplayName == true)
        #expect(projection.resolve(real.bytes.span).map { projection.realName(at: $0.slot) } == real)
      }
    }
  }

  /// A directory that was large once reports that size for ever, and thousands of small ones may be cached.
  @Test func projectionFilling_withFewerNamesThanExpected_keepsNoMemoryForThem() {
    var filling = ProjectionFilling(count: 100_000)
    for name in ["a.txt", "b"] as [Name] {
      filling.add(
        name.bytes.span, kind: .file, inode: 1, entryType: 0, hidden: nil,
        stemLength: name.bytes.count > 1 ? 1 : nil)
    }
    let filled = filling.finish()
    #expect(listing(filled) == ["a.txt": "a", "b": "b"])
    let capacities = [filled.records.capacity, filled.bytes.capacity]
    #expect(capacities.allSatisfy { $0 < 100 }, "\(capacities)")
  }

  /// More names than a table has parts, and fewer. Many names clash, or none does before single names are added.
  @Test(arguments: [(200, 40), (20_000, 3000), (20_000, 1_000_000_000)])
  func projectionFilling_equalsSingleUpserts(count: Int, stems: UInt64) {
    var random = SplitMix(state: 7)
    var filling = ProjectionFilling(count: 100)
    var alone = Projection()
    var last: Name = ""
    for _ in 0..<count {
      let stem = "name \(random.next() % stems)"
      let ext = ["", ".x", ".y"][Int(random.next() % 3)]
      let name = Name(stem + ext)
      let hidden: HiddenReason? = random.next() % 8 == 0 ? .configured : nil
      // A name that is added twice keeps its first entry.
      if alone.slot(realName: name.bytes.span) == nil {
        last = name
        alone.upsert(file(name, stem: ext.isEmpty || hidden != nil ? nil : stem.utf8.count, hidden: hidden))
      }
      filling.add(
        name.bytes.span, kind: .file, inode: 1, entryType: 0, hidden: hidden,
        stemLength: ext.isEmpty || hidden != nil ? nil : stem.utf8.count)
    }
    var filled = filling.finish()
    #expect(filled.count == alone.count)
    #expect(listing(filled) == listing(alone))
    for (real, shown) in listing(alone) {
      for name in [real, shown] {
        let found = filled.resolve(name.bytes.span).map { filled.realName(at: $0.slot) }
        #expect(found == alone.resolve(name.bytes.span).map { alone.realName(at: $0.slot) })
      }
    }
    for name in listing(alone).filter({ $0.key != $0.value }).keys.prefix(100) {
      let rival = Name(name.bytes.dropLast() + Array("rival".utf8))
      for child in [file(rival, stem: name.bytes.count - 2), file(name)] {
        filled.upsert(child)
        alone.upsert(child)
      }
    }
    filled.remove(realName: last)
    alone.remove(realName: last)
    #expect(listing(filled) == listing(alone))
  }

  @Test(arguments: 0..<20 as Range<UInt64>)
  func rivals_ofAChange_areAllThatItListsDifferently(seed: UInt64) {
    var random = SplitMix(state: seed)
    var projection = Projection()
    for step in 0..<300 {
      let stem = ["a", "b", "c"][Int(random.next() % 3)]
      let ext = ["", ".x", ".y", ".z"][Int(random.next() % 4)]
      let name = Name(stem + ext)
      var child: Child? = file(name, stem: ext.isEmpty || random.next() % 4 == 0 ? nil : stem.utf8.count)
      switch random.next() % 4 {
      case 0: child = nil
      case 1: child = file(name, hidden: .configured)
      default: break
      }
      let before = listing(projection)
      let rivals = projection.rivals(of: name, becoming: child).map { projection.realName(at: $0) }
      if let child { projection.upsert(child) } else { projection.remove(realName: name) }
      let after = listing(projection)
      #expect(!rivals.contains(name), "seed \(seed), step \(step)")
      for other in before.keys where other != name && after[other] != before[other] {
        #expect(rivals.contains(other), "seed \(seed), step \(step): \(other)")
      }
    }
  }

  @Test func tenThousandNamesWithOneStem_areProjected() {
    var projection = Projection()
    for index in 0..<10_000 { projection.upsert(file(Name("core.\(index)"), stem: 4)) }
    #expect(projection.count == 10_000)
    #expect(projection.displayName(at: 77) == "core.77")
    for index in 1..<10_000 { projection.remove(realName: Name("core.\(index)")) }
    #expect(listing(projection) == ["core.0": "core"])
  }
}

/// Repeatable randomness (SplitMix64).
struct SplitMix: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}
