import ArgumentParser
import DisplayNames
import SystemPackage
import View

struct ListDirectory: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ls", abstract: "List a directory as the view shows it, without a mount.")

  @OptionGroup var options: QueryOptions

  @Flag(name: .shortAndLong, help: "List hidden entries too.")
  var all = false

  @Flag(name: .customShort("l"), help: "Print kind and real name beside each display name.")
  var long = false

  @Flag(help: "List the directories below as well.")
  var tree = false

  @Option(help: "When to colour directories, packages, localized names and hidden entries.")
  var color = Style.When.auto

  @Argument(help: "The directory.", completion: .directory)
  var path: FilePath = "."

  func run() throws {
    let place = try options.place(of: path)
    let isColoured = color.holds
    var printed = 0
    var walk = ViewWalk(view: place.view, includesHidden: all, descends: tree)
    do throws(Errno) {
      guard try place.view.isDirectory(place.node) else { throw .notDirectory }
      if options.json { Output.bytes([UInt8(ascii: "[")]) }
      try walk.visit(place.node) { entry, branch in
        if options.json {
          Output.bytes(Array(((printed == 0 ? "" : ",\n ") + JSON.object(entry)).utf8))
        } else {
          Output.line(branch + line(of: entry, isColoured))
        }
        printed += 1
        return true
      }
      if options.json { Output.line([UInt8(ascii: "]")]) }
    } catch { throw Failure(.system, "\(path): \(error)") }
    if walk.hasFailed { throw ExitCode(ExitStatus.system.rawValue) }
  }

  private func line(of entry: Explanation, _ isColoured: Bool) -> [UInt8] {
    let name = isColoured ? Style.painted(entry) : entry.displayName.bytes
    guard long else { return name }
    return Array("\(entry.kind.word)\(entry.isHidden ? " (hidden)" : "")\t".utf8) + name + [0x09]
      + entry.realName.bytes
  }
}

/// Walks the entries of a directory of a view, sorted by the bytes of their names, and on request those of all subdirectories.
struct ViewWalk {
  let view: View
  let includesHidden: Bool
  let descends: Bool
  /// Whether a subdirectory could not be read. The error message on standard error names it.
  private(set) var hasFailed = false
  private var isOver = false

  init(view: View, includesHidden: Bool, descends: Bool) {
    self.view = view
    self.includesHidden = includesHidden
    self.descends = descends
  }

  /// - Parameter body: is called with each entry, a directory before its contents, and with the lines that lead to the entry from
  ///   the top. It returns whether to continue.
  mutating func visit(
    _ node: NodeID, _ lead: [UInt8] = [], _ body: (Explanation, [UInt8]) -> Bool
  ) throws(Errno) {
    let entries = try view.explainAll(in: node)
      .filter { includesHidden || !$0.isHidden }
      .sorted { $0.displayName < $1.displayName }
    for (index, entry) in entries.enumerated() {
      let isLast = index == entries.count - 1
      guard !isOver, body(entry, descends ? lead + Array((isLast ? "└── " : "├── ").utf8) : []) else {
        isOver = true
        return
      }
      guard descends, entry.kind == .directory else { continue }
      do throws(Errno) {
        let child = try CName(entry.realName).withPointer { (name) throws(Errno) in
          try view.lookup(node, name).id
        }
        try visit(child, lead + Array((isLast ? "    " : "│   ").utf8), body)
      } catch {
        // A directory that was removed meanwhile, or that may not be reached (`hidden=deny`), shows nothing.
        if error == .noSuchFileOrDirectory { continue }
        printError("displayfs: \(entry.realPath): \(error)")
        hasFailed = true
      }
    }
  }
}
