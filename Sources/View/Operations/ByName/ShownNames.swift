import BackingTree
import DisplayNames

/// The display names of entries that the view knows by their real names.
extension View {
  /// The path of a directory in the view: display names from the root on, separated by `/`; nil when the directory has no
  /// place.
  public func path(of id: NodeID) -> [UInt8]? {
    var path: [UInt8] = []
    var current = id
    var steps = 0
    while current != NodeTable.root {
      guard let location = nodes.location(of: current), steps < 65_536 else { return nil }
      let name = shownName(of: location)
      path = path.isEmpty ? name.bytes : name.bytes + [0x2f] + path
      current = location.parent
      steps += 1
    }
    return path
  }

  /// The name that leads to the directory itself: a package's display name leads to a file.
  private func shownName(of location: NodeTable.Location) -> Name {
    let real = location.name.name
    return shownName(real, in: location.parent, unless: .package) ?? real
  }

  /// The display name of an entry; nil where no view of the directory is available, or the view does not show the entry.
  func shownName(_ real: Name, in parent: NodeID, unless kind: EntryKind? = nil) -> Name? {
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
