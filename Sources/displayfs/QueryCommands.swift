import ArgumentParser
import DisplayNames
import Glibc
import SystemPackage
import View

struct Explain: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Explain the name that an entry is shown under, or why it is hidden.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry, in the backing tree or in a mounted view.", completion: .file())
  var path: FilePath

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(JSON.object(explanation)) }
    let text = """
      display name: \(explanation.displayName)
      real name:    \(explanation.realName)
      real path:    \(Name(explanation.realPath))
      kind:         \(explanation.kind)
      reason:       \(explanation.reason)
      """
    Output.line(text)
  }
}

struct RealPath: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "realpath", abstract: "Print where an entry of a view lies in the backing tree.",
    discussion: "PATH may lie in a mounted view, or in a backing tree with display names in it.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry.", completion: .file())
  var path: FilePath

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(JSON.object(explanation)) }
    Output.line(explanation.realPath)
  }
}

struct DisplayNameOf: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "name", abstract: "Print the display name of an entry.")

  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry, in the backing tree or in a mounted view.", completion: .file())
  var path: FilePath

  func run() throws {
    let explanation = try options.explanation(of: path)
    if options.json { return Output.line(JSON.object(explanation)) }
    Output.line(explanation.displayName.bytes)
  }
}
