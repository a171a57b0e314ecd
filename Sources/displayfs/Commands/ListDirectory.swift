import ArgumentParser
import DisplayNames
import SystemPackage
import View

struct ListDirectory: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ls", abstract: "List a directory as the view shows it, without a mount.")

  enum Order: String, ExpressibleByArgument, CaseIterable {
    case name, bytes
  }

  @OptionGroup var options: QueryOptions

  @Flag(name: .shortAndLong, help: "List hidden entries too.")
  var all = false

  @Flag(name: .customShort("l"), help: "Print kind and real name beside each display name.")
  var long = false

  @Flag(help: "With -l, print size and date too, for people to read.")
  var human = false

  @Flag(help: "List the directories below as well.")
  var tree = false

  @Flag(
    help: "Print the paths of what a backup takes, those of whole directories where it takes all in them.")
  var backedUp = false

  @Flag(name: .customShort("0"), help: "With --backed-up, end each path with a NUL.")
  var null = false

  @Option(
    help: "Sort by name as the Finder (numbers by value, letters as the language collates them), or by bytes."
  )
  var sort = Order.name

  @Option(help: "When to colour directories, packages, localized names and hidden entries.")
  var color = Style.When.auto

  @Argument(help: "The directory.", completion: .directory)
  var path: FilePath = "."

  func validate() throws {
    if human, !long { throw ValidationError("--human needs -l.") }
    if null, !backedUp { throw ValidationError("-0 needs --backed-up.") }
    if backedUp, long || tree || options.json {
      throw ValidationError("--backed-up prints paths: it goes with none of -l, --tree and --json.")
    }
  }

  func run() throws {
    try refuseMounted()
    let place = try options.place(of: path)
    let (order, lines) = (FinderOrder.fromEnvironment, Lines(view: place.view, isColoured: color.holds))
    var walk = ViewWalk(view: place.view, includesHidden: all, descends: tree) { entries in
      switch sort {
      case .name: order.sorted(entries, by: \.displayName)
      case .bytes: entries.sorted { $0.displayName < $1.displayName }
      }
    }
    var hasFailed = false
    do throws(Errno) {
      guard try place.view.isDirectory(place.node) else { throw .notDirectory }
      if backedUp {
        let list = try BackupList(of: place)
        for path in list.paths { Output.bytes(path + [null ? 0 : 0x0a]) }
        hasFailed = list.hasFailed
      } else if options.json {
        try printJSON(of: place, &walk)
      } else if let terminal = Terminal.output, !long, !tree {
        try printColumns(of: place, &walk, lines, width: terminal.width)
      } else {
        try walk.visit(place.node) { entry, directory, branch in
          let line =
            human ? lines.human(entry, in: directory) : long ? lines.long(entry) : lines.name(of: entry)
          Output.line(branch + line)
          return true
        }
      }
    } catch { throw Failure(.system, "\(path): \(error)") }
    if hasFailed || walk.hasFailed { throw ExitCode(ExitStatus.system.rawValue) }
  }

  /// The names in a mounted view are those that it shows, and the view of a view is not what is mounted.
  private func refuseMounted() throws(Failure) {
    guard let resolved = try? path.resolvingSymlinks(), MountQuery.isInView(resolved),
      let real = MountQuery.of("realpath", resolved).map({ FilePath(bytes: $0) }),
      // A view mounted on its own source hides the directory that could be listed.
      !MountQuery.isInView(real)
    else { return }
    throw Failure(.usage, "\(path): lies in a mounted view; list \(real) instead, or use ls(1)")
  }

  private func printJSON(of place: ViewedPath, _ walk: inout ViewWalk) throws(Errno) {
    var isFirst = true
    var current: (directory: NodeID, details: DetailsOfEntries)?
    var failure: Errno?
    Output.bytes([UInt8(ascii: "[")])
    try walk.visit(place.node) { entry, directory, _ in
      do throws(Errno) {
        let details =
          if let current, current.directory == directory { current.details } else {
            try place.view.detailsOfEntries(in: directory)
          }
        current = (directory, details)
        let object = JSON.object(entry, details.details(of: entry))
        Output.bytes(Array(((isFirst ? "" : ",\n ") + object).utf8))
        isFirst = false
      } catch { failure = error }
      return failure == nil
    }
    if let failure { throw failure }
    Output.line([UInt8(ascii: "]")])
  }

  private func printColumns(
    of place: ViewedPath, _ walk: inout ViewWalk, _ lines: Lines, width: Int
  ) throws(Errno) {
    var items: [(text: [UInt8], width: Int)] = []
    try walk.visit(place.node) { entry, _, _ in
      items.append((lines.name(of: entry), Terminal.columns(Terminal.printable(entry.displayName.bytes))))
      return true
    }
    for line in Columns.lines(items, width: width) { Output.line(line) }
  }
}

/// How `ls` prints an entry.
private struct Lines {
  let view: View
  let isColoured: Bool

  /// The display name: coloured on request.
  func name(of entry: Explanation) -> [UInt8] {
    let name = shown(entry.displayName.bytes)
    return isColoured ? Style.painted(name, of: entry) : name
  }

  func long(_ entry: Explanation) -> [UInt8] {
    Array("\(entry.kind.word)\(entry.isHidden ? " (hidden)" : "")\t".utf8) + name(of: entry) + [0x09]
      + shown(entry.realName.bytes)
  }

  func human(_ entry: Explanation, in directory: NodeID) -> [UInt8] {
    let attributes = CName(entry.isHidden ? entry.realName : entry.displayName).withPointer { name in
      (try? view.lookup(directory, name)).flatMap { try? view.attributes($0.id) }
    }
    return HumanReadable.line(
      of: entry, attributes, name: name(of: entry), realName: shown(entry.realName.bytes))
  }

  /// Names as they are, except on a terminal.
  private func shown(_ name: [UInt8]) -> [UInt8] {
    Terminal.output == nil ? name : Array(Terminal.printable(name).utf8)
  }
}
