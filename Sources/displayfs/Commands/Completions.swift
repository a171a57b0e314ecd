import ArgumentParser

struct Completions: ParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Print the completion script for a shell.",
    discussion: "Packages install it; by hand, for bash: source <(displayfs completions bash)")

  enum Shell: String, ExpressibleByArgument, CaseIterable {
    case bash, zsh, fish
  }

  @Argument(help: "bash, zsh or fish.")
  var shell: Shell

  func run() {
    let kind: CompletionShell =
      switch shell {
      case .bash: .bash
      case .zsh: .zsh
      case .fish: .fish
      }
    print(Displayfs.completionScript(for: kind))
  }
}

/// Completes the argument of `-o`: names of options, and their values.
enum OptionCompletion {
  static let kind = CompletionKind.custom { words, index, _ in candidates(words, at: index) }

  /// The completions of the word at `index`. bash splits words at each equals sign and replaces only the part after it.
  private static func candidates(_ words: [String], at index: Int) -> [String] {
    guard words.indices.contains(index) else { return MountOptions.completions }
    var first = words[index] == "=" ? index - 1 : index
    while first >= 2, words[first - 1] == "=" { first -= 2 }
    guard first >= 0 else { return [] }
    let typed = words[first...index].joined()
    let replaced = words[index] == "=" ? typed.count : typed.count - words[index].count
    let comma = typed.lastIndex(of: ",").map(typed.index(after:)) ?? typed.startIndex
    return MountOptions.completions.filter { $0.hasPrefix(typed[comma...]) }
      .map { String((typed[..<comma] + $0).dropFirst(replaced)) }
  }
}
