import ArgumentParser
import Glibc
import View

/// The styles of entries on a terminal.
enum Style {
  enum When: String, ExpressibleByArgument, CaseIterable {
    case auto, always, never

    /// For `auto`: on a terminal that supports it, unless `NO_COLOR` has a value (no-color.org).
    var holds: Bool {
      switch self {
      case .always: true
      case .never: false
      case .auto:
        isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR").map { $0.pointee == 0 } ?? true
          && getenv("TERM").map { strcmp($0, "dumb") != 0 } ?? false
      }
    }
  }

  /// The display name: its colour shows the kind, an underline shows that it is localized, and a hidden name is dim.
  static func painted(_ name: [UInt8], of entry: Explanation) -> [UInt8] {
    var codes: [String] = []
    switch entry.kind {
    case .directory: codes.append("1;34")
    case .package: codes.append("1;35")
    case .symlink, .alias: codes.append("36")
    case .other: codes.append("33")
    case .file: break
    }
    if entry.isLocalized { codes.append("4") }
    if entry.isHidden { codes.append("2") }
    guard !codes.isEmpty else { return name }
    return Array("\u{1B}[\(codes.joined(separator: ";"))m".utf8) + name
      + Array("\u{1B}[0m".utf8)
  }
}
