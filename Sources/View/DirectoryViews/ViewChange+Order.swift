import BackingTree
import DisplayNames

/// Puts what changed between two looks at the tree into an order in which it can have happened.
extension ViewChange {
  /// Programs that watch add the name of each entry that comes, and remove that of each entry that goes. So a name is given up
  /// before another entry gets it.
  ///
  /// - Parameter changes: those of each directory in the order of the looks at it, and of one look first what vanished.
  static func inOrder(_ changes: [ViewChange]) -> [ViewChange] {
    changes.count > 1 ? freeingNamesFirst(joiningRenames(changes)) : changes
  }

  private struct Place: Hashable {
    let directory: NodeID
    let name: Name

    init(_ item: ListingEntry) { (directory, name) = (item.directory, item.name) }
  }

  // MARK: Renames

  /// A change with its position among the changes as they were found. A rename was found as two changes.
  private struct Step {
    let change: ViewChange
    let position: Int
    /// Where an entry that was renamed was found to be gone from its old place.
    var departure: Int?
  }

  /// Joins an entry that vanished in one place and appeared in another into one rename, if the backing tree had such a rename.
  ///
  /// Deleting and creating a file is no rename, though a file system may reuse the inode number. An entry that a rename replaces
  /// is not reported as vanished in addition.
  private static func joiningRenames(_ changes: [ViewChange]) -> [Step] {
    var steps: [Step?] = changes.enumerated().map { Step(change: $1, position: $0) }
    var leaving: [FileIdentity: [(position: Int, item: ListingEntry)]] = [:]
    var coming: [FileIdentity: [(position: Int, place: Place)]] = [:]
    var vanished: [Place: [Int]] = [:]
    for (position, change) in changes.enumerated() {
      switch change {
      case .vanished(let item):
        vanished[Place(item), default: []].append(position)
        if item.wasMoved { leaving[item.identity, default: []].append((position, item)) }
      case .appeared(let item) where item.wasMoved:
        coming[item.identity, default: []].append((position, Place(item)))
      default: break
      }
    }
    var renames: [(position: Int, place: Place)] = []
    for (position, change) in changes.enumerated() {
      guard case .appeared(let item) = change, item.wasMoved else { continue }
      let source = leaving[item.identity]?.firstIndex { from in
        guard from.item.nodeKind == item.nodeKind, from.item.type == item.type else { return false }
        if from.position < position { return true }
        // Another directory may be looked at later. What came to that place after this entry did, left it later.
        return from.item.directory != item.directory
          && coming[item.identity]?.contains {
            $0.place == Place(from.item) && position < $0.position && $0.position < from.position
          } != true
      }
      guard let source, let from = leaving[item.identity]?.remove(at: source) else { continue }
      steps[from.position] = nil
      steps[position] = Step(
        change: .renamed(from: from.item, to: item), position: position, departure: from.position)
      renames.append((position, Place(item)))
    }
    for rename in renames {
      let replaced = vanished[rename.place]?.last { $0 < rename.position && steps[$0] != nil }
      if let replaced { steps[replaced] = nil }
    }
    return steps.compactMap(\.self)
  }

  // MARK: Names

  /// What a change does with a name.
  private struct NameUse {
    enum Kind { case frees, takes, other }

    let position: Int
    /// The index of the change in the list to be ordered.
    let index: Int
    let kind: Kind
    let item: ListingEntry

    /// Whether the name is freed by another entry than the one that takes it, which so must come first.
    func mustPrecede(_ taken: NameUse) -> Bool {
      kind == .frees && taken.kind == .takes
        && (item.identity != taken.item.identity || item.realName != taken.item.realName)
    }
  }

  private static func uses(of steps: [Step]) -> [NameUse] {
    steps.enumerated().flatMap { index, step -> [NameUse] in
      func use(_ kind: NameUse.Kind, _ item: ListingEntry, at position: Int? = nil) -> NameUse {
        NameUse(position: position ?? step.position, index: index, kind: kind, item: item)
      }
      return switch step.change {
      case .appeared(let item): [use(.takes, item)]
      case .vanished(let item): [use(.frees, item)]
      case .renamed(let old, let new): [use(.frees, old, at: step.departure), use(.takes, new)]
      case .written(let item), .attributes(let item): [use(.other, item)]
      }
    }.sorted { $0.position < $1.position }
  }

  /// For each change, the last ones before it that use the same names.
  private static func prerequisites(of steps: [Step]) -> [[Int]] {
    var users: [Place: [NameUse]] = [:]
    for use in uses(of: steps) {
      let place = Place(use.item)
      if let last = users[place]?.lastIndex(where: { $0.kind != .other }),
        use.mustPrecede(users[place]![last])
      {
        users[place]!.insert(use, at: last)
      } else {
        users[place, default: []].append(use)
      }
    }
    var result = [[Int]](repeating: [], count: steps.count)
    for users in users.values {
      for (first, second) in zip(users, users.dropFirst()) { result[second.index].append(first.index) }
    }
    return result
  }

  /// Two entries that exchange their names wait for each other. Then one rename is split into its halves: its entry leaves first
  /// and comes last.
  private static func freeingNamesFirst(_ steps: [Step]) -> [ViewChange] {
    enum Progress { case waiting, begun, done }
    var prerequisites = prerequisites(of: steps)
    var progress = [Progress](repeating: .waiting, count: steps.count)
    /// By a change that waits for one that waits for it, the latter.
    var waitedFor: [Int: Int] = [:]
    /// The second halves of renames, by the change that they follow.
    var arrivals: [Int: [ViewChange]] = [:]
    var ordered: [ViewChange] = []
    for first in steps.indices where progress[first] == .waiting {
      progress[first] = .begun
      var pending = [first]
      while let index = pending.last {
        if let next = prerequisites[index].popLast() {
          switch progress[next] {
          case .waiting:
            progress[next] = .begun
            pending.append(next)
          case .begun: waitedFor[index] = next
          case .done: break
          }
          continue
        }
        pending.removeLast()
        progress[index] = .done
        if let other = waitedFor[index], case .renamed(var old, let new) = steps[index].change {
          old.isElsewhere = true
          ordered.append(.vanished(old))
          arrivals[other, default: []].append(.appeared(new))
        } else {
          ordered.append(steps[index].change)
        }
        ordered += arrivals[index] ?? []
      }
    }
    return ordered
  }
}
