import BackingTree
import CLinux
import DisplayNames
import Glibc
import SystemPackage
import View

/// Checks of the requirements of a view of one directory.
struct SourceChecks {
  private let path: FilePath
  private let place: ViewedPath

  init(_ path: FilePath, _ options: QueryOptions) throws(Failure) {
    do throws(Errno) { self.path = try path.resolvingSymlinks() } catch {
      throw Failure(.system, "\(path): \(error)")
    }
    place = try options.place(of: path)
  }

  var findings: [Finding] { [attributes] + nestedMounts + names }

  private var attributes: Finding {
    let count = path.withPlatformString { getxattr($0, "user.displayfs.probe", nil, 0) }
    let error = Errno(rawValue: count < 0 ? errno : 0)
    if count >= 0 || error == .noData {
      return .ok("extended attributes", "\(path) supports them, so Finder info can be stored with files")
    }
    return .advice(
      "extended attributes",
      "\(path) does not support them (\(error)): Finder info is read from AppleDouble files only",
      do: "nothing, if the tree has no Finder info; otherwise move it to a file system that supports them")
  }

  /// A view inside its own source shows the directory that the mount point covers there. Programs that walk the source walk both.
  private var nestedMounts: [Finding] {
    let nested = MountTable.displayfs.filter { $0.source == path && $0.mountPoint.starts(with: path) }
    if nested.isEmpty { return [.ok("nested mounts", "no view of \(path) lies in \(path)")] }
    return nested.map {
      .advice(
        "nested mounts",
        "\($0.mountPoint) lies in its own source: programs that search \(path) find everything twice",
        do: "mount it elsewhere, or leave the mount point out of searches and backups")
    }
  }

  /// How many entries are checked for clashing names.
  private static let limit = 100_000

  private var names: [Finding] {
    let check = "clashing names"
    var seen = 0
    var examples: [FilePath] = []
    var count = 0
    var twins = Twins()
    var walk = ViewWalk(view: place.view, includesHidden: false, descends: true)
    do throws(Errno) {
      try walk.visit(place.node) { entry, _, _ in
        seen += 1
        twins.add(entry)
        guard entry.isContested else { return true }
        count += 1
        if examples.count < 3 { examples.append(entry.realPath) }
        return seen < Self.limit
      }
    } catch { return [.problem(check, "\(path): \(error)", do: "check the permissions of the directory")] }
    let extent = seen < Self.limit ? "" : " among the first \(seen)"
    if count == 0 {
      return [.ok(check, "every entry\(extent) has the name it should have"), twins.finding(extent)]
    }
    let clashes = Finding.advice(
      check,
      "\(count) entries\(extent) keep more of their real names, as they would look like others: "
        + examples.map(\.description).joined(separator: ", ") + (count > examples.count ? ", ..." : ""),
      do:
        "nothing; displayfs explain gives the reason for each. Renaming one of two frees the name for the other"
    )
    return [clashes, twins.finding(extent)]
  }
}
