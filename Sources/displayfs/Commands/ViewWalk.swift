import DisplayNames
import SystemPackage
import View

/// Walks the entries of a directory of a view in an order, and on request those of all subdirectories.
struct ViewWalk {
  let view: View
  let includesHidden: Bool
  let descends: Bool
  private let sorted: ([Explanation]) -> [Explanation]
  /// Whether a subdirectory could not be read. The error message on standard error names it.
  private(set) var hasFailed = false
  private var isOver = false

  /// - Parameter sorted: puts the entries of one directory in order; by default by the bytes of their display names.
  init(
    view: View, includesHidden: Bool, descends: Bool,
    sorted: @escaping ([Explanation]) -> [Explanation] = { $0.sorted { $0.displayName < $1.displayName } }
  ) {
    self.view = view
    self.includesHidden = includesHidden
    self.descends = descends
    self.sorted = sorted
  }

  /// - Parameter body: is called with each entry, a directory before its contents, with the directory that the entry is in, and
  ///   with the lines that lead to the entry from the top. It returns whether to continue.
  mutating func visit(
    _ node: NodeID, _ lead: [UInt8] = [], _ body: (Explanation, NodeID, [UInt8]) -> Bool
  ) throws(Errno) {
    let entries = sorted(try view.explainAll(in: node).filter { includesHidden || !$0.isHidden })
    for (index, entry) in entries.enumerated() {
      let isLast = index == entries.count - 1
      guard !isOver, body(entry, node, descends ? lead + Array((isLast ? "└── " : "├── ").utf8) : []) else {
        isOver = true
        return
      }
      guard descends, entry.kind == .directory else { continue }
      do throws(Errno) {
        let child = try CName(entry.realName).withPointer { (name) throws(Errno) in
          try view.lookup(node, name).id
        }
        try visit(child, lead + Array((isLast ? "    " : "│   ").utf8), body)
      } catch {
        // A directory that was removed meanwhile, or that may not be reached (`hidden=deny`), shows nothing.
        if error == .noSuchFileOrDirectory { continue }
        printError("displayfs: \(entry.realPath): \(error)")
        hasFailed = true
      }
    }
  }
}
