import DisplayNames
import SystemPackage
import View

/// What a backup takes of a directory: an entry as a whole where it takes all that is below it, else what it takes of the entry.
///
/// Hidden entries are taken as well: they are files of the user, or decide how others are shown. A package is one item.
struct BackupList {
  private let view: View
  /// Paths in the backing tree.
  private(set) var paths: [[UInt8]] = []

  init(of place: ViewedPath) throws(Errno) {
    view = place.view
    _ = try add(contentsOf: place.node)
  }

  /// - Returns: whether all of them are taken.
  private mutating func add(contentsOf directory: NodeID) throws(Errno) -> Bool {
    var areAllTaken = true
    let details = try view.detailsOfEntries(in: directory)
    for entry in try view.explainAll(in: directory).sorted(by: { $0.realName < $1.realName }) {
      guard details.details(of: entry).isBackedUp else {
        areAllTaken = false
        continue
      }
      let count = paths.count
      if entry.kind == .directory {
        let child = try CName(entry.realName).withPointer { (name) throws(Errno) in
          try view.lookup(directory, name).id
        }
        if try !add(contentsOf: child) {
          areAllTaken = false
          continue
        }
        paths.removeSubrange(count...)
      }
      paths.append(entry.realPathBytes)
    }
    return areAllTaken
  }
}
