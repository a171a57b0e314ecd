import BackingTree
import DisplayNames
import Glibc
import Logging
import SystemPackage

/// A place in the view of a backing tree, found without a mount.
///
/// It holds the source and the directories on the way open, and an instance of inotify or fanotify, of which a user has few (128
/// of inotify where `max_user_instances` is as Linux sets it): let go of it when its names are read. For the names of a whole
/// directory read the directory once, by ``entries()``.
public struct ViewedPath: Sendable {
  package let view: View
  /// The node that the path leads to.
  package let node: NodeID
  private let path: FilePath

  /// The reason why a path leads to nothing.
  public enum Failure: Error, Sendable, CustomStringConvertible {
    /// A path and the error of the system call that failed for it: ENOENT where there is no such entry, EACCES where this process
    /// may not read a directory.
    case system(FilePath, Errno)
    /// The path does not lie in the directory that was given as its source.
    case outside(FilePath, source: FilePath)

    /// The path and the error in one line.
    public var description: String {
      switch self {
      case .system(let path, let error): "\(path): \(error)"
      case .outside(let path, let source): "\(path) does not lie in \(source)"
      }
    }
  }

  /// Finds a place.
  ///
  /// - Parameters:
  ///   - path: in the backing tree, absolute or relative to the working directory; real names and display names may be mixed.
  ///   - source: the directory to view. The default is the nearest Macintosh volume around the path, else the nearest home or
  ///     container, else the nearest root of a UNIX system, else the nearest directory.
  ///   - options: the options of the view; by default those of a mount without options, with the languages of the environment.
  /// - Throws: ``Failure/system(_:_:)`` when there is no such entry or it may not be accessed, ``Failure/outside(_:source:)`` when
  ///   it does not lie in `source`.
  public init(
    _ path: FilePath, source: FilePath? = nil, options: ViewOptions = .fromEnvironment
  ) throws(Failure) {
    let absolute = try Self.workingDirectory(path).pushing(path)
    let (root, rest): (FilePath, [Name])
    if let source {
      (root, rest) = try Self.split(absolute, at: source)
    } else {
      (root, rest) = try Self.split(absolute)
    }
    let directory = try Self.open(root)
    do throws(Errno) {
      let silent = Logger(label: "displayfs") { _ in SwiftLogNoOpLogHandler() }
      let view = try View(source: directory, options: options, logger: silent)
      var node = NodeTable.root
      for name in rest {
        guard try view.isDirectory(node) else { throw .notDirectory }
        node = try CName(name).withPointer { (name) throws(Errno) in try view.lookup(node, name).id }
      }
      self.view = view
      self.node = node
      self.path = path
    } catch { throw .system(path, error) }
  }

  /// How the view shows the entry: its names, its real path and the rule that named or hid it.
  ///
  /// - Throws: ``Failure/system(_:_:)``, with ESTALE when the entry was moved or removed since it was found.
  public func explanation() throws(Failure) -> Explanation {
    do throws(Errno) { return try view.explain(node) } catch { throw .system(path, error) }
  }

  /// How the view shows each entry of the directory, hidden ones included, in no particular order. A package is a file: its
  /// contents are those of the path that ends in its real name.
  ///
  /// - Throws: ``Failure/system(_:_:)``, with ENOTDIR when the view shows no directory there.
  public func entries() throws(Failure) -> [Explanation] {
    do throws(Errno) {
      guard try view.isDirectory(node) else { throw .notDirectory }
      return try view.explainAll(in: node)
    } catch { throw .system(path, error) }
  }

  /// The names that lead from the source to the path.
  private static func split(_ path: FilePath, at source: FilePath) throws(Failure) -> (FilePath, [Name]) {
    let root: FilePath
    do throws(Errno) { root = try source.resolvingSymlinks() } catch { throw .system(source, error) }
    var (directory, rest) = existingPrefix(of: path)
    guard directory.removePrefix(root) else { throw .outside(path, source: source) }
    return (root, directory.components.map { Name($0.bytes) } + rest)
  }

  /// The nearest source of the best rank, and the names that lead from it. A home on a Mac volume is shown by the rules of that
  /// volume.
  private static func split(_ path: FilePath) throws(Failure) -> (FilePath, [Name]) {
    let (directory, rest) = existingPrefix(of: path)
    var best = (rank: 3, source: directory)
    var ancestor = directory
    while true {
      let opened = try open(ancestor)
      let rank =
        switch View.detectProfile(of: Directory(descriptor: opened.rawValue)) {
        case .macos: 0
        case .home, .ios, .icloud: 1
        case .unix: 2
        case .auto, .plain, .none: 3
        }
      if rank < best.rank { best = (rank, ancestor) }
      if !ancestor.removeLastComponent() { break }
    }
    return (
      best.source, directory.components.dropFirst(best.source.components.count).map { Name($0.bytes) } + rest
    )
  }

  /// The longest prefix of the path that leads through directories by real names without symlinks, and the names after it.
  private static func existingPrefix(of path: FilePath) -> (FilePath, [Name]) {
    var candidate = path
    var rest: [Name] = []
    while true {
      if let found = try? candidate.stat(followTargetSymlink: false), found.type == .directory,
        let resolved = try? candidate.resolvingSymlinks()
      {
        return (resolved, rest.reversed())
      }
      guard let last = candidate.lastComponent else { return ("/", rest.reversed()) }
      rest.append(Name(last.bytes))
      candidate.removeLastComponent()
    }
  }

  private static func open(_ path: FilePath) throws(Failure) -> Descriptor {
    do throws(Errno) { return try path.openDirectory() } catch { throw .system(path, error) }
  }

  private static func workingDirectory(_ path: FilePath) throws(Failure) -> FilePath {
    if path.isAbsolute { return "/" }
    do throws(Errno) { return try FilePath.workingDirectory() } catch { throw .system(path, error) }
  }
}
