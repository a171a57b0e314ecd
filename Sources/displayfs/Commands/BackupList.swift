import DisplayNames
import SystemPackage
import View

/// What a backup takes of a directory: an entry as a whole where it takes all that is below it, else what it takes of the entry.
///
/// Hidden entries are taken as well: they are files of the user, or decide how others are shown. A package is one item. A directory
/// that cannot be read is taken as a whole: what is archived needlessly is not lost, and the archiver reports what it cannot read.
struct BackupList {
  private let view: View
  /// Paths in the backing tree.
  private(set) var paths: [[UInt8]] = []
  /// Whether a subdirectory could not be read. The error message on standard error names it.
  private(set) var hasFailed = false

  /// A directory in progress. An array of them replaces recursion, because a tree may be deeper than the call stack.
  private struct Visit {
    let node: NodeID
    /// The names that lead to it from SOURCE.
    let path: [Name]
    /// Its own path in the backing tree; nil of the directory that is listed.
    let realPath: [UInt8]?
    /// Those that are taken and not yet visited, the next one at the end.
    var entries: [Explanation]
    var areAllTaken: Bool
    /// The number of paths before those of its entries.
    let count: Int
  }

  init(of place: ViewedPath) throws(Errno) {
    view = place.view
    let details = try view.detailsOfEntries(in: place.node)
    var visits = [try visit(place.node, at: details.path, realPath: nil, details.selection)]
    while let last = visits.indices.last {
      if let entry = visits[last].entries.popLast() {
        if entry.kind == .directory, let subdirectory = subdirectory(entry, of: visits[last]) {
          visits.append(subdirectory)
        } else {
          paths.append(entry.realPathBytes)
        }
        continue
      }
      let finished = visits.removeLast()
      guard let path = finished.realPath else { continue }
      if finished.areAllTaken {
        paths.removeSubrange(finished.count...)
        paths.append(path)
      } else {
        visits[last - 1].areAllTaken = false
      }
    }
  }

  /// - Returns: nil where the entries cannot be listed.
  private mutating func subdirectory(_ entry: Explanation, of parent: Visit) -> Visit? {
    do throws(Errno) {
      let node = try CName(entry.realName).withPointer { (name) throws(Errno) in
        try view.lookup(parent.node, name).id
      }
      let path = parent.path + [entry.realName]
      let selection = try view.backupSelection(in: node, inTaken: path)
      return try visit(node, at: path, realPath: entry.realPathBytes, selection)
    } catch {
      // It was removed meanwhile, or may not be reached (`hidden=deny`).
      if [.noSuchFileOrDirectory, .notDirectory, .staleNFSFileHandle].contains(error) { return nil }
      printError("displayfs: \(entry.realPath): \(error)")
      hasFailed = true
      return nil
    }
  }

  private func visit(
    _ node: NodeID, at path: [Name], realPath: [UInt8]?, _ selection: BackupSelection
  ) throws(Errno) -> Visit {
    let entries = try view.explainAll(in: node)
    let taken = entries.filter { selection.takes($0.realName) }
    return Visit(
      node: node, path: path, realPath: realPath, entries: taken.sorted { $0.realName > $1.realName },
      areAllTaken: taken.count == entries.count, count: paths.count)
  }
}
