import DisplayNames
import MacMetadata

/// Where in SOURCE the target of an alias may lie.
enum AliasPlaces {
  /// The paths below SOURCE that may be the target, the first of which that exists is.
  ///
  /// An alias tells the path on the Mac that wrote it. SOURCE is that Mac's file system, the target's volume, or a directory of
  /// either: the path below SOURCE is then what follows that directory in the target's path. SOURCE is taken for a directory
  /// within the volume only where it has that directory's name, or where the alias lies in the same directory of SOURCE as the
  /// target would. Nothing else is tried: the end of a path alone says little.
  ///
  /// - Parameters:
  ///   - source: the name of SOURCE.
  ///   - directory: the real names that lead from SOURCE to the directory of the alias.
  static func candidates(for target: AliasTarget, source: Name, directory: [Name]) -> [[Name]] {
    let path = (target.volume + target.path).map { Name($0) }
    return path.indices.filter { start in
      start == 0 || start == target.volume.count || isEqual(path[start - 1], source)
        || directory.first.map { isEqual(path[start], $0) } ?? false
    }.map { Array(path[$0...]) }
  }

  private static func isEqual(_ a: Name, _ b: Name) -> Bool { a == b || a.composed == b.composed }
}
