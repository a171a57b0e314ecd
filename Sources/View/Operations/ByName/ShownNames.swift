import BackingTree
import DisplayNames

/// A directory on a path in the view.
package struct PathComponent: Sendable {
  package let parent: NodeID
  /// The name that leads to the directory itself.
  package let name: Name
  package let node: NodeID
}

/// The display names of entries that the view knows by their real names.
extension View {
  /// The path from the root to a directory; nil when the directory has no place.
  package func path(to id: NodeID) -> [PathComponent]? { path(to: id) { listedDisplayName(of: $0) } }

  /// The same by the names as of the last look. Waits for no file system and no other thread.
  package func lastPath(to id: NodeID) -> [PathComponent]? {
    path(to: id) { link in
      let real = link.name.name
      return directories.views.view(of: link.parent)?.displayNameUnlessLocked(real) ?? real
    }
  }

  private func path(to id: NodeID, _ name: (NodeTable.Link) -> Name) -> [PathComponent]? {
    var path: [PathComponent] = []
    var current = id
    while current != NodeTable.root {
      guard let link = nodes.link(of: current), path.count < 65_536 else { return nil }
      path.append(PathComponent(parent: link.parent, name: name(link), node: current))
      current = link.parent
    }
    return path.reversed()
  }

  /// The name that leads to the directory itself: a package's display name leads to a file.
  private func listedDisplayName(of link: NodeTable.Link) -> Name {
    let real = link.name.name
    return listedDisplayName(real, in: link.parent, unless: .package) ?? real
  }

  /// The display name of an entry; nil where no view of the directory is available, or the view does not show the entry.
  func listedDisplayName(_ real: Name, in parent: NodeID, unless kind: EntryKind? = nil) -> Name? {
    guard !isPlainMirror, let view = currentView(of: parent) else { return nil }
    let shown = try? view.withCurrent { (projection) -> Name? in
      guard let slot = projection.slot(realName: real.bytes.span),
        let summary = projection.summary(at: slot), !summary.isHidden, summary.kind != kind
      else { return nil }
      return projection.displayName(at: slot)
    }
    return shown.flatMap { $0 }
  }
}
