import ArgumentParser
import Glibc
import SystemPackage
import View

struct List: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ls", abstract: "List a directory as the view shows it, without a mount.")

  @OptionGroup var options: QueryOptions

  @Flag(name: .shortAndLong, help: "List hidden entries too.")
  var all = false

  @Flag(name: .customShort("l"), help: "Print kind and real name beside each display name.")
  var long = false

  @Argument(help: "The directory.")
  var path: String = "."

  func run() throws {
    let query = try Query(path, options)
    let entries: [Explanation]
    do throws(Errno) {
      guard try query.view.isDirectory(query.node) else { throw .notDirectory }
      entries = try query.view.explainAll(in: query.node)
        .filter { all || !$0.isHidden }
        .sorted { $0.displayName < $1.displayName }
    } catch { throw Failure(.system, "\(path): \(error)") }
    if options.json {
      return Output.line(Array(("[" + entries.map(JSON.object).joined(separator: ",\n ") + "]").utf8))
    }
    for entry in entries {
      var line = entry.displayName.bytes
      if long {
        line =
          Array("\(entry.kind)\(entry.isHidden ? " (hidden)" : "")\t".utf8) + line + [0x09]
          + entry.realName.bytes
      }
      Output.line(line)
    }
  }
}

struct Explain: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Tell under which name an entry is shown, or why it is hidden.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry, in the backing tree or in a mounted view.")
  var path: String

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(Array(JSON.object(explanation).utf8)) }
    let text = """
      display name: \(explanation.displayName)
      real name:    \(explanation.realName)
      real path:    \(Text.lossy(explanation.realPath))
      kind:         \(explanation.kind)
      reason:       \(explanation.reason)
      """
    Output.line(Array(text.utf8))
  }
}

struct RealPath: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "realpath", abstract: "Print where an entry of a view lies in the backing tree.",
    discussion: "PATH may lie in a mounted view, or in a backing tree with display names in it.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry.")
  var path: String

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(Array(JSON.object(explanation).utf8)) }
    Output.line(explanation.realPath)
  }
}

struct DisplayNameOf: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "name", abstract: "Print the display name of an entry.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry, in the backing tree or in a mounted view.")
  var path: String

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(Array(JSON.object(explanation).utf8)) }
    Output.line(explanation.displayName.bytes)
  }
}
