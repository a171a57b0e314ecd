import ArgumentParser
import DisplayNames
import Glibc
import SystemPackage
import View

/// What the commands below have in common: they look one entry up without a mount.
struct EntryQuery: ParsableArguments {
  @OptionGroup var options: QueryOptions

  @Argument(help: "The entry, in the backing tree or in a mounted view.", completion: .file())
  var path: FilePath

  /// Prints the explanation of the entry, as JSON or by `printing` it.
  func report(printing: (Explanation, EntryDetails) -> Void) throws {
    let (explanation, details) = try options.explanation(of: path)
    if options.json {
      Output.line(JSON.object(explanation, details, comparison(explanation)))
    } else {
      printing(explanation, details)
    }
  }

  /// How the path's last name leads to the entry; nil where it is no name of it, as in `.`.
  func comparison(_ explanation: Explanation) -> NameMatching? {
    path.lastComponent.flatMap { explanation.comparison(with: Name($0.bytes)) }
  }
}

struct Explain: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Explain the name that an entry is shown under, or why it is hidden.")

  @OptionGroup var query: EntryQuery

  func run() throws {
    try query.report { explanation, details in
      let text = """
        display name: \(explanation.displayName)
        real name:    \(explanation.realName)
        real path:    \(Name(explanation.realPathBytes))
        kind:         \(explanation.kind.word)
        reason:       \(explanation.reason)
        type:         \(details.contentType.identifier) (\(details.contentType.mimeType))
        backup:       \(details.isBackedUp ? "taken" : "left out")
        """
      Output.line(text)
      if let purpose = details.purpose { Output.line("purpose:      \(purpose)") }
      if let comparison = query.comparison(explanation) { Output.line("matching:     \(comparison)") }
    }
  }
}

struct RealPath: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "realpath", abstract: "Print where an entry of a view lies in the backing tree.",
    discussion: "PATH may lie in a mounted view, or in a backing tree with display names in it.")

  @OptionGroup var query: EntryQuery

  func run() throws { try query.report { explanation, _ in Output.line(explanation.realPathBytes) } }
}

struct DisplayNameOf: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "name", abstract: "Print the display name of an entry.")

  @OptionGroup var query: EntryQuery

  func run() throws { try query.report { explanation, _ in Output.line(explanation.displayName.bytes) } }
}
