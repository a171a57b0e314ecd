import ArgumentParser
import DisplayNames
import SystemPackage
import View

/// The options of all commands that query a view without mounting it.
struct QueryOptions: ParsableArguments {
  @Option(
    name: .customShort("o"),
    help: ArgumentHelp("Options of the view, as for mount.", valueName: "option,..."),
    completion: OptionCompletion.kind)
  var options: [String] = []

  @Option(
    help: ArgumentHelp(
      "The source of the view to query; by default the nearest volume or home around PATH.",
      valueName: "directory"),
    completion: .directory)
  var source: FilePath?

  @Flag(help: "Print JSON.")
  var json = false
}

extension QueryOptions {
  /// Explains a path by the mounted view that it lies in, else by the view of the tree around it.
  func explanation(of path: FilePath) throws(Failure) -> (Explanation, EntryDetails) {
    if let mounted = try MountQuery.explanation(path), let details = MountQuery.details(path) {
      return (mounted, details)
    }
    let place = try place(of: path)
    do throws(ViewedPath.Failure) {
      let explanation = try place.explanation()
      return (explanation, try place.details(of: explanation))
    } catch { throw Failure(.system, "\(error)") }
  }

  /// The path in the view of the tree around it.
  func place(of path: FilePath) throws(Failure) -> ViewedPath {
    let parsed = try MountOptions.completed(options)
    do throws(ViewedPath.Failure) { return try ViewedPath(path, source: source, options: parsed.view) } catch
    {
      if case .outside = error { throw Failure(.usage, "\(error)") }
      throw Failure(.system, "\(error)")
    }
  }
}
