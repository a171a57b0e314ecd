import BackingTree
import DisplayNames
import Glibc
import SystemPackage

/// The display names of files on this machine, without a mount. They correspond to `FileManager.displayName(atPath:)` and
/// `componentsToDisplay(forPath:)` on a Mac.
///
/// ```swift
/// try DisplayName.of("/home/anna/Documents/report.pdf")                  // "report"
/// try DisplayName.componentsToDisplay(of: "/media/mac/Users/anna/Music")  // ["media", "mac", "Benutzer", "anna", "Musik"]
/// ```
///
/// A name is taken from the view of the nearest Macintosh volume around the path, else of the nearest home or container, else of
/// the nearest root of a UNIX system, else of the directory that holds the file. Each call reads that directory: for the names of
/// many entries use ``ViewedPath/entries()``.
public enum DisplayName {
  /// The display name of a file.
  ///
  /// - Parameters:
  ///   - path: absolute, or relative to the working directory; it may contain display names.
  ///   - options: the options of the view. By default extensions are hidden as with `extensions=hide`, and the languages are
  ///     those of the environment.
  /// - Throws: ``ViewedPath/Failure/system(_:_:)`` when there is no such file, or it may not be accessed.
  public static func of(
    _ path: FilePath, options: ViewOptions = .fromEnvironment
  ) throws(ViewedPath.Failure) -> Name {
    try ViewedPath(path, options: options).explanation().displayName
  }

  /// The display names of the directories that lead to a file, from the top, followed by the file's own display name.
  ///
  /// - Throws: as ``of(_:options:)``.
  public static func componentsToDisplay(
    of path: FilePath, options: ViewOptions = .fromEnvironment
  ) throws(ViewedPath.Failure) -> [Name] {
    let place = try ViewedPath(path, options: options)
    do throws(Errno) { return try place.view.displayNames(to: place.node) } catch {
      throw .system(path, error)
    }
  }
}

extension ViewOptions {
  /// The default options, with the languages that the environment of this process requests.
  public static var fromEnvironment: ViewOptions {
    var options = ViewOptions()
    options.languages = LanguageList.fromEnvironment
    return options
  }
}

extension LanguageList {
  /// The languages that the environment of this process requests.
  public static var fromEnvironment: [LanguageTag] {
    parse { name in getenv(name).map { String(cString: $0) } }
  }
}

extension View {
  /// The names that lead to a node: the components of the source's path unchanged, then display names.
  func displayNames(to id: NodeID) throws(Errno) -> [Name] {
    var names: [Name] = []
    var current = id
    while current != NodeTable.root {
      guard let link = nodes.link(of: current) else { throw .staleNFSFileHandle }
      names.append(try explain(current).displayName)
      current = link.parent
    }
    let source = try explain(NodeTable.root).realPath
    return source.components.map { Name($0.bytes) } + names.reversed()
  }
}
