import BackingTree
import DisplayNames
import Glibc
import MacMetadata
import SystemPackage

/// The applications on a volume, which declare types of files and packages ("Bundle Programming Guide", About Bundles).
enum InstalledApplications {
  /// Bounds the time that mounting takes on a volume with very many applications.
  private static let applicationLimit = 2000
  /// Bounds it where their property lists take long to parse: a usual one takes a millisecond, the worst a quarter of a second.
  private static let timeLimit: Duration = .seconds(5)

  /// The property lists of the applications in `Applications`, `System/Applications` and the `Applications` of each home in
  /// `Users`, and in the first level of folders below these.
  ///
  /// - Parameter timeLimit: no further list is read when the scan has taken so much CPU time. Waiting for the disk does not count.
  static func properties(below root: Directory, within timeLimit: Duration = timeLimit) -> [BundleInfo] {
    var infos: [BundleInfo] = []
    let end = threadTime() + timeLimit
    let homes = directories(in: "Users", below: root).map { "Users/\($0)/Applications" }
    for folder in ["Applications", "System/Applications"] + homes {
      collect(folder, below: root, depth: 2, until: end, into: &infos)
    }
    return infos
  }

  private static func collect(
    _ path: String, below root: Directory, depth: Int, until end: Duration, into infos: inout [BundleInfo]
  ) {
    for name in directories(in: path, below: root) {
      guard infos.count < applicationLimit, threadTime() < end else { return }
      if name.hasSuffix(".app") {
        if let bytes = root.smallFile("\(path)/\(name)/Contents/Info.plist", limit: ParserLimits.inputBytes),
          let info = BundleInfo(bytes)
        {
          infos.append(info)
        }
      } else if depth > 1 {
        collect("\(path)/\(name)", below: root, depth: depth - 1, until: end, into: &infos)
      }
    }
  }

  /// The CPU time that the calling thread has taken.
  private static func threadTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
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
