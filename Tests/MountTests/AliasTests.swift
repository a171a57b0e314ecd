import Dispatch
import Glibc
import Synchronization
import Testing

/// Files that programs use by their display name and by their real one.
@Suite(.mounting) struct AliasTests {
  private static let count = 50

  private func view() throws -> MountedView {
    try MountedView("language=de") { root in
      for number in 0..<Self.count { try put("x", at: "\(root)/Folder/file\(number).txt") }
      try put("text", at: "\(root)/report.txt")
      makeDirectory("\(root)/Music")
      try put("", at: "\(root)/Music/.localized")
    }
  }

  private func look(_ view: MountedView, _ ending: String = "") {
    for number in 0..<Self.count { #expect(status(view.at("Folder/file\(number)\(ending)"))?.st_size == 1) }
  }

  enum Use: CaseIterable {
    case file, directory, rivals, removal
  }

  @Test(arguments: Use.allCases)
  func useOfBothNames_keepsOtherEntriesCached(use: Use) throws {
    let view = try view()
    look(view)
    look(view)
    switch use {
    case .file:
      #expect(isThere(view.at("report")) && isThere(view.at("report.txt")) && isThere(view.at("report")))
    case .directory:
      #expect(isThere(view.at("Musik")) && isThere(view.at("Music")) && isThere(view.at("Musik")))
      #expect(rename(view.at("Music"), view.at("Songs")) == 0)
      #expect(!isThere(view.at("Musik")))
    case .rivals:
      try put("photo", at: view.at("Folder/trip.jpg"))
      try put("film", at: view.at("Folder/trip.mov"))
      #expect(unlink(view.at("Folder/trip.jpg")) == 0)
    case .removal:
      #expect(isThere(view.at("report")) && isThere(view.at("report.txt")))
      #expect(unlink(view.at("report.txt")) == 0)
      #expect(!isThere(view.at("report")))
    }
    let before = try view.requestCount()
    look(view)
    #expect(try view.requestCount() - before < Self.count / 2)
  }

  @Test func lastUsedName_staysCached() throws {
    let view = try view()
    for ending in ["", ".txt", "", ".txt"] {
      look(view, ending)
      look(view, ending)
      let before = try view.requestCount()
      look(view, ending)
      #expect(try view.requestCount() - before < Self.count / 2)
    }
  }

  @Test func link_followsNameThatWasUsed() throws {
    let view = try view()
    for number in 0..<Self.count {
      let display = view.at("Folder/file\(number)")
      let (meant, other) = number % 2 == 0 ? (display, display + ".txt") : (display + ".txt", display)
      #expect(isThere(meant) && isThere(other))
      #expect(link(meant, view.at("Folder/link\(number)")) == 0)
      let real = number % 2 == 0 ? "link\(number).txt" : "link\(number)"
      #expect(isThere(view.real("Folder/\(real)")))
    }
  }

  /// The kernel has cached one name of the file earlier, and learns the other name through a link.
  @Test(arguments: [("", ".txt"), (".txt", "")], [false, true])
  func removedName_doesNotLeadToOtherLink(endings: (known: String, used: String), isLinkRenamed: Bool) throws {
    let (known, used) = endings
    let view = try view()
    #expect(text(view.at("report\(known)")) == "text")
    #expect(link(view.real("report.txt"), view.real("Folder/copy.txt")) == 0)
    #expect(
      eventually { names(view.at("Folder")).contains("copy") && isThere(view.at("Folder/copy\(used)")) })
    let copy = isLinkRenamed ? "other" : "copy"
    if isLinkRenamed { #expect(rename(view.at("Folder/copy\(used)"), view.at("Folder/other\(used)")) == 0) }
    #expect(unlink(view.at("report\(used)")) == 0)
    #expect(!isThere(view.at("report\(known)")))
    try put("new", at: view.at("report\(known)"))
    #expect(text(view.real("Folder/\(copy).txt")) == "text")
    #expect(text(view.at("report\(known)")) == "new")
  }

  @Test func contentsOfFormerPackage_haveDisplayNames() throws {
    let view = try view()
    for _ in 0..<10 {
      makeDirectory(view.at("Letter.rtfd"))
      try put("text", at: view.at("Letter.rtfd/page.txt"))
      #expect(names(view.at("Letter.rtfd")) == ["page.txt"] && !isThere(view.at("Letter.rtfd/page")))
      #expect(rename(view.at("Letter.rtfd"), view.at("Folder/Letter")) == 0)
      #expect(isThere(view.at("Folder/Letter/page")))
      #expect(unlink(view.at("Folder/Letter/page")) == 0 && rmdir(view.at("Folder/Letter")) == 0)
    }
  }

  /// Other threads stat both names meanwhile, or the names that they list.
  @Test(arguments: [false, true]) func removedNames_duringConcurrentLookups_areGone(isListed: Bool) throws {
    let view = try view()
    let names = ["report", "report.txt", "letter", "letter.txt"].map { view.at($0) }
    let root = view.mountPoint
    let hasEnded = Atomic<Bool>(false)
    DispatchQueue.concurrentPerform(iterations: 3) { watcher in
      if watcher > 0 {
        while !hasEnded.load(ordering: .relaxed) {
          for name in isListed ? MountTests.names(root).map({ "\(root)/\($0)" }) : names { _ = isThere(name) }
        }
        return
      }
      defer { hasEnded.store(true, ordering: .relaxed) }
      func expect(
        _ names: ArraySlice<String>, areThere: Bool, since change: ContinuousClock.Instant, _ round: Int
      ) {
        for name in names { expectWalk(since: change, "\(round), \(name)") { isThere(name) == areThere } }
      }
      for round in 0..<500 {
        // Every second round uses a name that the previous call did not use.
        let (from, to) = round % 4 < 2 ? (0, 2) : (1, 3)
        var change = ContinuousClock.now
        #expect(rename(names[from], names[to]) == 0)
        expect(names[..<2], areThere: false, since: change, round)
        expect(names[2...], areThere: true, since: change, round)
        change = .now
        if round % 2 == 0 {
          #expect(rename(names[3 - from], names[1 - from]) == 0)
        } else {
          #expect(unlink(names[3 - from]) == 0)
          expect(names[2...], areThere: false, since: change, round)
          change = .now
          try? put("text", at: names[1])
        }
        expect(names[..<2], areThere: true, since: change, round)
      }
    }
  }
}
