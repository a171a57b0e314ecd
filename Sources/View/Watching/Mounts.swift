import BackingTree
import DisplayNames
import SystemPackage

/// File systems that are mounted in the backing tree, and unmounted. The watch on a directory does not report that another file
/// system covers an entry.
extension View {
  /// Called when something was mounted at these paths, or unmounted.
  package func noteMounts(at paths: Set<FilePath>) {
    guard let top = source.path else { return }
    for path in paths {
      guard let names = path.names(below: top), let name = names.last,
        let parent = knownDirectory(names.dropLast())
      else { continue }
      name.withCName { cached.directory(parent)?.changes.note(.entry($0, wasMoved: false)) }
    }
  }

  /// The directory that these real names lead to now; nil where the kernel does not know it. The node of a directory that a mount
  /// covers has the same names.
  private func knownDirectory(_ names: ArraySlice<[UInt8]>) -> NodeID? {
    if names.isEmpty { return NodeTable.root }
    let path = Array(names.joined(separator: [UInt8(ascii: "/")]))
    return path.withCName { try? source.root.status($0) }.flatMap { nodes.node(of: FileIdentity($0)) }
  }
}
