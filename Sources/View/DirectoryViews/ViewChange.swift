import BackingTree
import DisplayNames

/// An entry as a directory of the view lists it.
package struct ListingEntry: Sendable, Equatable {
  package let directory: NodeID
  /// The display name of the entry.
  package let name: Name
  package let realName: Name
  package let identity: FileIdentity
  package let nodeKind: NodeKind
  /// The type that the listing reports.
  package let type: BackingTree.FileType
  /// Whether the watch reported that the entry was renamed to or from here.
  var wasMoved = false
  /// Whether a vanished entry is known to be at another place.
  var isElsewhere = false
  /// Whether this is a new directory with the inode number of the one listed before, which was removed.
  var isRemade = false

  /// The type of the backing file: a package is listed as a regular file, and an alias as a symlink.
  var backingType: FileType {
    switch nodeKind {
    case .plain: type
    case .packageFile: .directory
    case .alias: .regular
    }
  }
}

/// A change in the view that was not made through the view under that name.
package enum ViewChange: Sendable, Equatable {
  case appeared(ListingEntry)
  case vanished(ListingEntry)
  case renamed(from: ListingEntry, to: ListingEntry)
  /// A process wrote the entry's content and has closed it.
  case written(ListingEntry)
  case attributes(ListingEntry)
}

extension ViewChange {
  /// The difference between how an entry was listed and how it is listed now. Nil stands for not listed.
  static func between(_ before: ListingEntry?, _ after: ListingEntry?) -> [ViewChange] {
    switch (before, after) {
    case (nil, nil): return []
    case (nil, let after?): return [.appeared(after)]
    case (let before?, nil): return [.vanished(before)]
    case (let before?, let after?):
      let isSame =
        before.identity == after.identity && before.nodeKind == after.nodeKind && before.type == after.type
        && before.realName == after.realName && !after.isRemade
      if !isSame { return [.vanished(before), .appeared(after)] }
      return before.name == after.name ? [] : [.renamed(from: before, to: after)]
    }
  }

  /// The directory that the change ends.
  ///
  /// - Parameter node: the node of an entry that is a directory, nil for any other.
  func endedDirectory(node: (ListingEntry) -> NodeID?) -> NodeID? {
    if case .vanished(let item) = self { node(item) } else { nil }
  }

  /// Puts what vanished from a directory before the end of the directory itself. A request that looks at the parent may report that
  /// end first.
  ///
  /// - Parameter node: the node of an entry that is a directory, nil for any other.
  static func endingDirectoriesLast(_ changes: [ViewChange], node: (ListingEntry) -> NodeID?) -> [ViewChange]
  {
    let ended = changes.map { $0.endedDirectory(node: node) }
    guard ended.contains(where: { $0 != nil }) else { return changes }
    var inside: [NodeID: [Int]] = [:]
    for (index, change) in changes.enumerated().reversed() {
      if case .vanished(let item) = change { inside[item.directory, default: []].append(index) }
    }
    var ordered: [ViewChange] = []
    var isSeen = [Bool](repeating: false, count: changes.count)
    for first in changes.indices where !isSeen[first] {
      isSeen[first] = true
      var pending = [first]
      while let index = pending.last {
        if let next = ended[index].flatMap({ inside[$0]?.popLast() }) {
          if !isSeen[next] { pending.append(next) }
          isSeen[next] = true
        } else {
          ordered.append(changes[pending.removeLast()])
        }
      }
    }
    return ordered
  }

  /// Whether one half of a rename is here, and the other half may be reported in a moment.
  static func hasHalfRename(_ changes: [ViewChange]) -> Bool {
    var leaving: Set<FileIdentity> = []
    var arriving: Set<FileIdentity> = []
    for change in changes {
      switch change {
      case .vanished(let item) where item.wasMoved: leaving.insert(item.identity)
      case .appeared(let item) where item.wasMoved: arriving.insert(item.identity)
      default: break
      }
    }
    return leaving != arriving
  }
}
