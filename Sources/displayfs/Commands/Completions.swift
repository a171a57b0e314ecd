import ArgumentParser
import DisplayNames

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
    let script = Displayfs.completionScript(for: kind)
    Output.line(Array(script.utf8))
    if shell == .bash { Output.line(Array((Self.addingCompletions + Self.joiningWords).utf8)) }
  }

  /// `compgen -W` expands the words that it completes with, command substitutions too, and a word may be a mount point that another
  /// user has named. This takes the place of the function of swift-argument-parser's script, and expands nothing.
  private static let addingCompletions = #"""

    __displayfs_add_completions() {
        local completion
        while IFS='' read -r completion; do
            [[ "${1}" != -W || "${completion}" = "${cur}"* ]] && COMPREPLY+=("${completion}")
        done < <(
            if [[ "${1}" = -W ]]; then printf '%s\n' "${2}"; else IFS=$'\n' compgen "${@}" -- "${cur}"; fi
        )
    }

    """#

  /// bash splits words at each equals sign and colon (COMP_WORDBREAKS), so that the script of swift-argument-parser takes the value
  /// of an option for an argument. This calls it with the words as they are typed, and returns of each completion the part after
  /// the last sign, which is all that bash replaces.
  private static let joiningWords = #"""

    _displayfs_joining_words() {
        local line="${COMP_LINE}" rest words=() typed previous kept index current=0
        for index in "${!COMP_WORDS[@]}"; do
            rest="${line#"${line%%[![:space:]]*}"}"
            if [[ "${index}" -eq 0 || "${rest}" != "${line}" ]]; then
                words+=("${COMP_WORDS[index]}")
            else
                words[-1]+="${COMP_WORDS[index]}"
            fi
            [[ "${index}" -eq "${COMP_CWORD}" ]] && current=$((${#words[@]} - 1))
            line="${rest#"${COMP_WORDS[index]}"}"
        done
        typed="${words[current]}"
        previous="${words[current - 1]}"
        local COMP_WORDS=("${words[@]}") COMP_CWORD="${current}"
        _displayfs "${1}" "${typed}" "${previous}"
        [[ "${previous}" = -o ]] || return
        kept="${typed%"${typed##*[=:]}"}"
        COMPREPLY=("${COMPREPLY[@]#"${kept}"}")
        # An option is no file name, in which the equals sign would be quoted, and a value follows that sign without a space.
        compopt +o filenames
        [[ -z "${COMPREPLY[*]}" || "${COMPREPLY[*]}" = *= ]] && compopt -o nospace
    }

    complete -o filenames -F _displayfs_joining_words displayfs
    """#
}

/// Completes the argument of `-o`: names of options, and their values.
enum OptionCompletion {
  static let kind = CompletionKind.custom { words, index, _ in candidates(words, at: index) }

  /// The completions of the word at `index`: of the last of the options in it, separated by commas.
  private static func candidates(_ words: [String], at index: Int) -> [String] {
    let typed = words.indices.contains(index) ? words[index] : ""
    let scalars = typed.unicodeScalars
    let comma = scalars.lastIndex(of: ",").map(scalars.index(after:)) ?? typed.startIndex
    return MountOptions.completions(of: typed[comma...]).map { completion in
      let whole = typed[..<comma] + completion
      // The script for zsh passes it to _describe, which takes what follows a colon for a description.
      return CompletionShell.requesting == .zsh
        ? whole.unicodeScalars.map { $0 == ":" ? "\\:" : String($0) }.joined() : String(whole)
    }
  }
}
