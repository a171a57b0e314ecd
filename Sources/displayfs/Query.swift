import ArgumentParser
import BackingTree
import CFuse
import DisplayNames
import Glibc
import Logging
import SystemPackage
import View

/// The options of all commands that ask about a view without mounting it.
struct QueryOptions: ParsableArguments {
  @Option(
    name: .customShort("o"),
    help: ArgumentHelp("Options of the view, as for mount.", valueName: "option,..."))
  var options: [String] = []

  @Option(
    help: ArgumentHelp(
      "The directory whose view is asked; by default the nearest volume or home around PATH.",
      valueName: "directory"))
  var source: String?

  @Flag(help: "Print JSON.")
  var json = false
}

extension QueryOptions {
  /// What a mounted view says of a path that lies in it, else what the view of the tree around it would be.
  func explanation(of path: String) throws -> Explanation {
    try MountedAnswer.explanation(path) ?? Query(path, self).explanation(of: path)
  }
}

/// A place in the view of a backing tree, found without a mount.
struct Query {
  let view: View
  /// The node that the path leads to.
  let node: NodeID

  /// - Parameter path: in the backing tree, by real names or display names.
  init(_ path: String, _ options: QueryOptions) throws {
    LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
    var parsed = MountOptions()
    for list in options.options { try parsed.add(list) }
    if !parsed.languageIsGiven { parsed.view.languages = LanguageList.fromEnvironment }
    let absolute = path.hasPrefix("/") ? path : "\(Self.workingDirectory)/\(path)"
    let (source, rest) = try options.source.map { try Self.split(absolute, at: $0) } ?? Self.split(absolute)
    let root = try Self.directory(source)
    do throws(Errno) {
      let view = try View(source: root, options: parsed.view, logger: Logger(label: "displayfs"))
      var node = NodeTable.root
      for component in rest {
        node = try CName(Name(component)).withPointer { (name) throws(Errno) in try view.lookup(node, name).id
        }
      }
      self.view = view
      self.node = node
    } catch { throw Failure(.system, "\(path): \(error)") }
  }

  /// The source that is named, and the names that lead from it to the path.
  private static func split(_ path: String, at source: String) throws(Failure) -> (String, [String]) {
    guard let resolved = realpath(source, nil) else {
      throw Failure(.system, "\(source): \(Errno(rawValue: errno))")
    }
    defer { free(resolved) }
    let root = String(cString: resolved)
    let (directory, rest) = try existingPrefix(of: path)
    if directory == root { return (root, rest) }
    let prefix = root == "/" ? "/" : root + "/"
    guard directory.hasPrefix(prefix) else { throw Failure(.usage, "\(path) does not lie in \(source)") }
    return (root, directory.dropFirst(prefix.count).split(separator: "/").map(String.init) + rest)
  }

  /// The nearest Mac volume around the path, else the nearest home or container, else the nearest UNIX root, and the names
  /// that lead from it. A home on a Mac volume is shown by that volume's rules.
  private static func split(_ path: String) throws(Failure) -> (String, [String]) {
    let (directory, rest) = try existingPrefix(of: path)
    var best: (rank: Int, source: String, inner: [String]) = (3, directory, [])
    var ancestor = directory
    var inner: [String] = []
    while true {
      let opened = try Self.directory(ancestor)
      let rank =
        switch View.detectProfile(of: Directory(descriptor: opened.rawValue)) {
        case .macos: 0
        case .home, .ios, .icloud: 1
        case .unix: 2
        case .auto, .plain, .none: 3
        }
      if rank < best.rank { best = (rank, ancestor, inner) }
      if ancestor == "/" { return (best.source, best.inner + rest) }
      let slash = ancestor.lastIndex(of: "/")!
      inner.insert(String(ancestor[ancestor.index(after: slash)...]), at: 0)
      ancestor = slash == ancestor.startIndex ? "/" : String(ancestor[..<slash])
    }
  }

  /// As much of the path as leads through directories by real names, without symlinks, and what is left of it.
  private static func existingPrefix(of path: String) throws(Failure) -> (String, [String]) {
    var components = path.split(separator: "/").map(String.init)
    var rest: [String] = []
    while true {
      let candidate = "/" + components.joined(separator: "/")
      var status = stat()
      if lstat(candidate, &status) == 0, status.st_mode & S_IFMT == S_IFDIR || components.isEmpty,
        let resolved = realpath(candidate, nil)
      {
        defer { free(resolved) }
        return (String(cString: resolved), rest)
      }
      rest.insert(components.removeLast(), at: 0)
    }
  }

  private static func directory(_ path: String) throws(Failure) -> Descriptor {
    do throws(Errno) {
      return Descriptor(adopting: try systemCall { open(path, dfs_O_PATH | O_DIRECTORY | O_CLOEXEC) })
    } catch { throw Failure(.system, "\(path): \(error)") }
  }

  private static var workingDirectory: String {
    guard let path = getcwd(nil, 0) else { return "/" }
    defer { free(path) }
    return String(cString: path)
  }

  /// The answer about the path itself.
  func explanation(of path: String) throws(Failure) -> Explanation {
    do throws(Errno) { return try view.explain(node) } catch { throw Failure(.system, "\(path): \(error)") }
  }
}
