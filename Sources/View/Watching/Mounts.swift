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

  /// A directory that the kernel may know, by the real names that lead to it.
  private func knownDirectory(_ names: ArraySlice<[UInt8]>) -> NodeID? {
    var directory = NodeTable.root
    for name in names {
      guard let next = name.withCName({ nodes.node(at: directory, $0, nodeKind: .plain) }) else { return nil }
      directory = next
    }
    return directory
  }
}
