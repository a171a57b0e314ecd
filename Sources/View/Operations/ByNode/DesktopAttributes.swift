import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// What Macs stored of an item, as the extended attributes that Linux desktops show.
extension View {
  private static let desktopPrefix = "user.xdg."

  /// The value of an attribute that the file itself does not have.
  ///
  /// - Throws: ENODATA when no store of metadata has it either.
  func desktopAttribute(
    _ name: UnsafePointer<CChar>, of id: NodeID, _ client: Client
  ) throws(Errno) -> [UInt8] {
    guard let attribute = desktopAttribute(name) else { throw .noData }
    let sideFiles = sideFiles(of: id) { (try? $0.currentSideFiles(of: $1)) ?? nil }
    let value = try withAttributes(of: id) { (attributes) throws(Errno) in
      let names = (try? attributes.names()) ?? []
      return desktopAttributes([attribute], of: id, in: attributes, names, sideFiles, client)[attribute]
    }
    guard let value else { throw .noData }
    return value
  }

  /// The attribute of that name, if the view may have it from metadata of Macs.
  func desktopAttribute(_ name: UnsafePointer<CChar>) -> DesktopAttribute? {
    guard strncmp(name, Self.desktopPrefix, Self.desktopPrefix.utf8.count) == 0, options.finderInfo != .off
    else {
      return nil
    }
    return DesktopAttribute.shown.first { strcmp(name, $0.name) == 0 }?.attribute
  }

  /// The names of the attributes that a file has by what Macs stored, except those that it has itself. For a file with neither
  /// attributes nor side files this takes no system call: programs list the attributes of all entries of a directory.
  ///
  /// - Parameter list: the names of the file's own attributes, each with a NUL.
  func desktopNames(
    of id: NodeID, in attributes: borrowing ExtendedAttributes, listed list: [UInt8], _ client: Client
  ) -> [String] {
    guard options.finderInfo != .off else { return [] }
    let sideFiles = sideFiles(of: id) { $0.lastSideFiles(of: $1) }
    if list.isEmpty, sideFiles.isEmpty { return [] }
    let own = list.split(separator: 0).map(Array.init)
    let missing = DesktopAttribute.shown.filter { shown in !own.contains { $0.elementsEqual(shown.name.utf8) }
    }
    let found = desktopAttributes(
      Set(missing.map(\.attribute)), of: id, in: attributes, own, sideFiles, client)
    return missing.filter { found[$0.attribute] != nil }.map(\.name)
  }

  private func desktopAttributes(
    _ wanted: Set<DesktopAttribute>, of id: NodeID, in attributes: borrowing ExtendedAttributes,
    _ names: [[UInt8]], _ sideFiles: FinderMetadata.SideFiles, _ client: Client
  ) -> [DesktopAttribute: [UInt8]] {
    let link = nodes.link(of: id)
    let parent = link.flatMap { try? directory($0.parent).directory }
    let reader = DesktopAttributeReader(
      wanted, metadata: inspector.metadata, place: link.flatMap { link in parent.map { (link.name, $0) } },
      sideFiles: sideFiles, client: client)
    return reader.values(in: attributes, named: names)
  }

  /// The side files that an item may have.
  ///
  /// - Parameter look: gets them from the view of the item's directory.
  private func sideFiles(
    of id: NodeID, _ look: (DirectoryView, Name) -> FinderMetadata.SideFiles?
  ) -> FinderMetadata.SideFiles {
    guard let link = nodes.link(of: id) else { return [] }
    return currentView(of: link.parent).flatMap { look($0, link.name.name) }
      ?? inspector.metadata.possibleSideFiles
  }
}
