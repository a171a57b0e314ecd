import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// The applications on a volume, which declare types of files and packages ("Bundle Programming Guide", About Bundles).
enum InstalledApplications {
  /// Bounds the time that mounting takes on a volume with very many applications.
  private static let applicationLimit = 2000

  /// The property lists of the applications in `Applications`, `System/Applications` and the `Applications` of each home in
  /// `Users`, and in the first level of folders below these.
  static func properties(below root: Directory) -> [BundleInfo] {
    var infos: [BundleInfo] = []
    let homes = directories(in: "Users", below: root).map { "Users/\($0)/Applications" }
    for folder in ["Applications", "System/Applications"] + homes {
      collect(folder, below: root, depth: 2, into: &infos)
    }
    return infos
  }

  private static func collect(
    _ path: String, below root: Directory, depth: Int, into infos: inout [BundleInfo]
  ) {
    for name in directories(in: path, below: root) where infos.count < applicationLimit {
      if name.hasSuffix(".app") {
        if let bytes = root.smallFile("\(path)/\(name)/Contents/Info.plist", limit: ParserLimits.inputBytes),
          let info = BundleInfo(bytes)
        {
          infos.append(info)
        }
      } else if depth > 1 {
        collect("\(path)/\(name)", below: root, depth: depth - 1, into: &infos)
      }
    }
  }

  private static func directories(in path: String, below root: Directory) -> [String] {
    guard let directory = try? root.openBeneath(path, O_RDONLY | O_DIRECTORY) else { return [] }
    var names: [String] = []
    try? forEachEntry(of: directory.rawValue) { entry in
      if entry.type == .directory, let text = Name(entry.name).text { names.append(text) }
    }
    return names.sorted()
  }
}
