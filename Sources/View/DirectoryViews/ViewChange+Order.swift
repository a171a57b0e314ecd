import BackingTree
import DisplayNames

/// Puts what changed between two looks at the tree into an order in which it can have happened.
extension ViewChange {
  /// Programs that watch add the name of each entry that comes, and remove that of each entry that goes. So a name is given up
  /// before another entry gets it.
  ///
  /// - Parameter changes: those of each directory in the order of the looks at it, and of one look first what vanished.
  static func inOrder(_ changes: [ViewChange]) -> [ViewChange] { freeingNamesFirst(joiningRenames(changes)) }

  /// Joins an entry that vanished in one place and appeared in another into one rename, if the backing tree had such a rename.
  ///
  /// Deleting and creating a file is no rename, though a file system may reuse the inode number. An entry that a rename replaces
  /// is not reported as vanished in addition.
  private static func joiningRenames(_ changes: [ViewChange]) -> [ViewChange] {
    var leaving: [FileIdentity: [(index: Int, item: ListingEntry)]] = [:]
    for case (let index, .vanished(let item)) in changes.enumerated() where item.wasMoved {
      leaving[item.identity, default: []].append((index, item))
    }
    guard !leaving.isEmpty else { return changes }
    var joined: [ViewChange?] = changes
    var vanished: [Place: [Int]] = [:]
    var replacing: [(index: Int, place: Place)] = []
    for (index, change) in changes.enumerated() {
      if case .vanished(let item) = change { vanished[Place(item), default: []].append(index) }
      guard case .appeared(let item) = change, item.wasMoved,
        let source = leaving[item.identity]?.firstIndex(where: { from in
          from.item.nodeKind == item.nodeKind && from.item.type == item.type
            && (from.index < index || from.item.directory != item.directory)
        }), let from = leaving[item.identity]?.remove(at: source)
      else { continue }
      joined[from.index] = nil
      joined[index] = .renamed(from: from.item, to: item)
      replacing.append((index, Place(item)))
    }
    for (index, place) in replacing {
      let last = vanished[place]?.last { $0 < index && joined[$0] != nil }
      if let last { joined[last] = nil }
    }
    return joined.compactMap(\.self)
  }

  private struct Place: Hashable {
    let directory: NodeID
    let name: Name

    init(_ item: ListingEntry) { (directory, name) = (item.directory, item.name) }
  }

  /// What a change does with a name.
  private struct NameUse {
    enum Kind { case frees, takes, other }

    let index: Int
    let kind: Kind
    let item: ListingEntry

    /// Whether the name is freed by another entry than the one that takes it, which so must come first.
    func mustPrecede(_ taken: NameUse) -> Bool {
      kind == .frees && taken.kind == .takes
        && (item.identity != taken.item.identity || item.realName != taken.item.realName)
    }
  }

  private func uses(_ index: Int) -> [NameUse] {
    switch self {
    case .appeared(let item): [NameUse(index: index, kind: .takes, item: item)]
    case .vanished(let item): [NameUse(index: index, kind: .frees, item: item)]
    case .renamed(let old, let new):
      [NameUse(index: index, kind: .frees, item: old), NameUse(index: index, kind: .takes, item: new)]
    case .written(let item), .attributes(let item): [NameUse(index: index, kind: .other, item: item)]
    }
  }

  /// For each change, those that use one of its names before it.
  private static func prerequisites(of changes: [ViewChange]) -> [[Int]] {
    var uses: [Place: [NameUse]] = [:]
    for (index, change) in changes.enumerated() {
      for use in change.uses(index) {
        let position = uses[Place(use.item)]?.lastIndex { $0.kind != .other }
        if let position, use.mustPrecede(uses[Place(use.item)]![position]) {
          uses[Place(use.item)]!.insert(use, at: position)
        } else {
          uses[Place(use.item), default: []].append(use)
        }
      }
    }
    var result = [[Int]](repeating: [], count: changes.count)
    for uses in uses.values {
      for (first, second) in zip(uses, uses.dropFirst()) { result[second.index].append(first.index) }
    }
    return result
  }

  private static func freeingNamesFirst(_ changes: [ViewChange]) -> [ViewChange] {
    guard changes.count > 1 else { return changes }
    enum Progress { case waiting, begun, done }
    var prerequisites = prerequisites(of: changes)
    var progress = [Progress](repeating: .waiting, count: changes.count)
    /// What a rename is waited for by that itself has to come before it, as where two entries exchange their names.
    var cycles: [Int: Int] = [:]
    /// The second halves of such renames, by the change that they follow.
    var halves: [Int: [ViewChange]] = [:]
    var ordered: [ViewChange] = []
    for first in changes.indices where progress[first] == .waiting {
      progress[first] = .begun
      var pending = [first]
      while let index = pending.last {
        if let next = prerequisites[index].popLast() {
          switch progress[next] {
          case .waiting:
            progress[next] = .begun
            pending.append(next)
          case .begun: cycles[index] = next
          case .done: break
          }
          continue
        }
        pending.removeLast()
        progress[index] = .done
        if let other = cycles[index], case .renamed(let old, let new) = changes[index] {
          ordered.append(.vanished(old))
          halves[other, default: []].append(.appeared(new))
        } else {
          ordered.append(changes[index])
        }
        ordered += halves[index] ?? []
      }
    }
    return ordered
  }
}
