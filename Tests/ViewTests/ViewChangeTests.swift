import BackingTree
import DisplayNames
import Testing

@testable import View

@Suite struct ViewChangeTests {
  private func item(_ name: Name, in directory: NodeID, inode: UInt64 = 0) -> ListingEntry {
    ListingEntry(
      directory: directory, name: name, realName: name, identity: FileIdentity(device: 1, inode: inode),
      nodeKind: .plain, type: inode == 0 ? .regular : .directory)
  }

  @Test func endOfDirectory_followsWhatVanishedFromIt() {
    let outer = ViewChange.vanished(item("outer", in: 1, inode: 2))
    let inner = ViewChange.vanished(item("inner", in: 2, inode: 3))
    let files = (0..<3).map { ViewChange.vanished(item(Name("\($0)"), in: 3)) }
    let beside = ViewChange.appeared(item("beside", in: 1))
    func ordered(_ changes: [ViewChange]) -> [ViewChange] {
      ViewChange.endingDirectoriesLast(changes) {
        $0.type == .directory ? NodeID(UInt32($0.identity.inode)) : nil
      }
    }
    #expect(ordered([outer, beside, inner] + files) == files + [inner, outer, beside])
    #expect(ordered([files[0], inner, files[1], outer, files[2]]) == files + [inner, outer])
    #expect(ordered([beside] + files) == [beside] + files)
    #expect(ordered([]) == [])
  }

  // MARK: Order

  /// What a program that watches knows of two directories: which file has each name.
  private struct Watcher {
    var files: [String: UInt64]

    /// - Returns: whether the change is possible where this is known.
    mutating func see(_ change: ViewChange, lasting: Set<UInt64>) -> Bool {
      func key(_ item: ListingEntry) -> String { "\(item.directory)/\(item.name)" }
      switch change {
      case .appeared(let item):
        if files[key(item)] != nil { return false }
        files[key(item)] = item.identity.inode
      case .vanished(let item): return files.removeValue(forKey: key(item)) == item.identity.inode
      case .renamed(let old, let new):
        guard files.removeValue(forKey: key(old)) == old.identity.inode else { return false }
        // A rename replaces only what is gone afterwards.
        if let replaced = files.updateValue(new.identity.inode, forKey: key(new)) {
          return !lasting.contains(replaced)
        }
      case .written, .attributes: break
      }
      return true
    }
  }

  private typealias Place = (directory: NodeID, name: Name)

  private func moved(_ file: UInt64, _ place: Place) -> ListingEntry {
    ListingEntry(
      directory: place.directory, name: place.name, realName: place.name,
      identity: FileIdentity(device: 1, inode: file), nodeKind: .plain, type: .regular, wasMoved: true)
  }

  /// Every way to have three files at four places, before and after.
  @Test func changesInOrder_leadFromWhatWasListedToWhatIs() {
    let places: [Place] = [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    var states: [[UInt64?]] = [[nil, nil, nil, nil]]
    for file in UInt64(1)...3 {
      states += states.flatMap { state in
        state.indices.filter { state[$0] == nil }.map { index in
          var next = state
          next[index] = file
          return next
        }
      }
    }
    func known(_ state: [UInt64?]) -> [String: UInt64] {
      let named = zip(places, state).compactMap { place, file in
        file.map { ("\(place.directory)/\(place.name)", $0) }
      }
      return Dictionary(uniqueKeysWithValues: named)
    }
    func differences(_ before: [UInt64?], _ after: [UInt64?], _ indices: [Int]) -> [ViewChange] {
      let changed = indices.filter { before[$0] != after[$0] }
      return changed.compactMap { index in before[index].map { .vanished(moved($0, places[index])) } }
        + changed.compactMap { index in after[index].map { .appeared(moved($0, places[index])) } }
    }
    for before in states {
      for after in states {
        for looks in [[[0, 1], [2, 3]], [[3, 2], [1, 0]]] {
          let changes = looks.flatMap { differences(before, after, $0) }
          var watcher = Watcher(files: known(before))
          let lasting = Set(after.compactMap(\.self))
          let arePossible = ViewChange.inOrder(changes).allSatisfy { watcher.see($0, lasting: lasting) }
          if !arePossible || watcher.files != known(after) {
            Issue.record("\(before) to \(after): \(ViewChange.inOrder(changes))")
          }
        }
      }
    }
  }

  @Test func nameThatAnotherEntryGets_isFreedFirst() {
    func entry(_ name: Name, _ real: Name, _ inode: UInt64) -> ListingEntry {
      ListingEntry(
        directory: 1, name: name, realName: real, identity: FileIdentity(device: 1, inode: inode),
        nodeKind: .plain, type: .regular)
    }
    // `a.jpg` was shown as `a` until there was a file `a`.
    let shown = ViewChange.renamed(from: entry("a", "a.jpg", 1), to: entry("a.jpg", "a.jpg", 1))
    let made = ViewChange.appeared(entry("a", "a", 2))
    #expect(ViewChange.inOrder([made, shown]) == [shown, made])
    let written = ViewChange.written(entry("a", "a", 2))
    #expect(ViewChange.inOrder([made, written, shown]) == [shown, made, written])
    // The file of one look is gone at the next.
    let gone = ViewChange.vanished(entry("a", "a", 2))
    #expect(ViewChange.inOrder([made, gone]) == [made, gone])
  }

  /// Directories are looked at one after the other.
  @Test func placeThatAFileCameToLater_isNotWhereItCameFrom() {
    let (place, other) = (moved(1, (1, "b")), moved(1, (2, "c")))
    let changes: [ViewChange] = [.appeared(place), .appeared(other), .vanished(other)]
    #expect(ViewChange.inOrder(changes) == changes)
    // A link by the old name was made after the rename.
    var link = place
    link.wasMoved = false
    #expect(
      ViewChange.inOrder([.vanished(place), .appeared(link), .appeared(other)])
        == [.renamed(from: place, to: other), .appeared(link)])
  }

  @Test func filesThatExchangeTheirNames_areKnownToBeElsewhere() {
    func at(_ name: Name, _ file: UInt64) -> ListingEntry { moved(file, (1, name)) }
    var left = at("b", 2)
    left.isElsewhere = true
    #expect(
      ViewChange.inOrder([
        .vanished(at("a", 1)), .vanished(at("b", 2)), .appeared(at("b", 1)), .appeared(at("a", 2)),
      ]) == [.vanished(left), .renamed(from: at("a", 1), to: at("b", 1)), .appeared(at("a", 2))])
  }

  @Test func fileThatIsRemovedAfterItsRename_isReportedAsRenamedAndRemoved() {
    let (old, new) = (moved(1, (1, "a")), moved(1, (1, "d")))
    let replaced = ViewChange.vanished(moved(2, (1, "d")))
    #expect(
      ViewChange.inOrder([.vanished(old), replaced, .appeared(new), .vanished(new)])
        == [.renamed(from: old, to: new), .vanished(new)])
  }
}
