import MacMetadata

/// Where the icon of a bundle is ("Information Property List Key Reference", `CFBundleIconFile`, `CFBundleIcons`).
enum BundleIcons {
  /// The property list of a bundle, and the directory with its resources: in the usual form, and in that of iOS.
  static let layouts = [("Contents/Info.plist", "Contents/Resources"), ("Info.plist", "")]

  /// The files with a bundle's icon, most wanted first.
  ///
  /// A name may lack its extension, of which `.icns` is taken before others, and the size or device that iOS has in it. Letters
  /// that differ in case alone count as equal, as on most volumes of Macs, where the names are.
  ///
  /// - Parameters:
  ///   - names: as the property list has them.
  ///   - entries: the entries of the directory with the resources.
  static func files(_ names: [String], among entries: [String]) -> [String] {
    let entries = entries.map { (name: $0, folded: $0.lowercased()) }
    var found: [String] = []
    for name in names where !name.contains("/") {
      let wanted = name.lowercased()
      let exact = [wanted + ".icns", wanted].compactMap { name in entries.first { $0.folded == name }?.name }
      let others = entries.filter { entry in
        entry.folded.hasPrefix(wanted) && [".png", ".tiff", ".jpg"].contains(where: entry.folded.hasSuffix)
      }
      for file in exact + others.map(\.name).sorted() where !found.contains(file) { found.append(file) }
    }
    return found
  }
}
