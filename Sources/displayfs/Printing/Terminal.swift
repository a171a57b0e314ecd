import CLinux
import Glibc

/// What standard output is, and how names are printed where it is a terminal.
struct Terminal {
  /// The number of columns.
  let width: Int

  /// Nil where standard output is no terminal.
  static let output: Terminal? = {
    guard isatty(STDOUT_FILENO) == 1 else { return nil }
    var size = winsize()
    let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
    // wcwidth(3) knows the widths of characters only in a locale with UTF-8, which the C library has built in.
    setlocale(LC_CTYPE, "C.UTF-8")
    return Terminal(width: isKnown ? Int(size.ws_col) : 80)
  }()

  /// The name with a question mark for each control character, which the terminal would obey, and for what is no UTF-8.
  static func printable(_ bytes: [UInt8]) -> String {
    var result = ""
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator: result += "?"
      default: result.unicodeScalars.append(scalar == "\u{fffd}" ? "?" : scalar)
      }
    }
    return result
  }

  /// How many columns printable text takes.
  static func columns(_ text: String) -> Int {
    text.unicodeScalars.reduce(0) { $0 + Int(dfs_columns($1.value)) }
  }
}
