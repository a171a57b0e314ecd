import BackingTree
import DisplayNames

/// The display names of entries that the view knows by their real names.
extension View {
  /// The path of a directory in the view: display names from the root on, separated by `/`; nil when the directory has no
  /// place.
  package func path(of id: NodeID) -> [UInt8]? {
    var path: [UInt8] = []
    var current = id
    var steps = 0
    while current != NodeTable.root {
      guard let link = nodes.link(of: current), steps < 65_536 else { return nil }
      let name = listedDisplayName(of: link)
      path = path.isEmpty ? name.bytes : name.bytes + [0x2f] + path
      current = link.parent
      steps += 1
    }
    return path
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
