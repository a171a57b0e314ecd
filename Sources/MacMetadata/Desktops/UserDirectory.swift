/// The directories with a role on the desktop, from `user-dirs.dirs` (xdg-user-dirs "xdg-user-dir-lookup.c").
public enum UserDirectory: String, CaseIterable, Sendable {
  case desktop = "DESKTOP"
  case download = "DOWNLOAD"
  case templates = "TEMPLATES"
  case publicShare = "PUBLICSHARE"
  case documents = "DOCUMENTS"
  case music = "MUSIC"
  case pictures = "PICTURES"
  case videos = "VIDEOS"

  /// The gettext domain with the translations of the directories' names.
  public static let translationDomain = "xdg-user-dirs"

  /// The directory's English name, which is its message in `translationDomain`.
  public var defaultName: String {
    switch self {
    case .desktop: "Desktop"
    case .download: "Downloads"
    case .templates: "Templates"
    case .publicShare: "Public"
    case .documents: "Documents"
    case .music: "Music"
    case .pictures: "Pictures"
    case .videos: "Videos"
    }
  }

  /// The location of a user directory, without a final slash.
  public enum Location: Hashable, Sendable {
    case inHome([UInt8])
    case absolute([UInt8])
  }

  /// The configured directories; nil when the file exceeds the size limit.
  ///
  /// Lines have the syntax of a shell assignment: `XDG_DESKTOP_DIR="$HOME/Schreibtisch"`. Other lines are skipped. Of two lines
  /// for the same directory the last takes effect. A directory that is the home itself is disabled, and left out.
  public static func parse(_ bytes: [UInt8]) -> [UserDirectory: Location]? {
    guard bytes.count <= ParserLimits.inputBytes else { return nil }
    var found: [UserDirectory: Location] = [:]
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      guard let (directory, value) = assignment(line), let location = location(value) else { continue }
      if location == .inHome([]) {
        found[directory] = nil
      } else {
        found[directory] = location
      }
    }
    return found
  }

  private static func assignment(_ line: ArraySlice<UInt8>) -> (UserDirectory, ArraySlice<UInt8>)? {
    let blank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    let line = line.drop(while: blank)
    guard let equals = line.firstIndex(of: UInt8(ascii: "=")) else { return nil }
    var key = line[..<equals]
    while let last = key.last, blank(last) { key.removeLast() }
    let value = line[(equals + 1)...].drop(while: blank)
    guard let directory = allCases.first(where: { key.elementsEqual("XDG_\($0.rawValue)_DIR".utf8) }),
      value.first == UInt8(ascii: "\"")
    else { return nil }
    return (directory, value.dropFirst())
  }

  /// Parses up to the closing quote. A backslash escapes the next byte.
  private static func location(_ value: ArraySlice<UInt8>) -> Location? {
    let home = Array("$HOME".utf8)
    let inHome = value.starts(with: home)
    var path: [UInt8] = []
    var rest = inHome ? value.dropFirst(home.count) : value
    while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
      if byte == UInt8(ascii: "\\"), let next = rest.popFirst() {
        path.append(next)
      } else {
        path.append(byte)
      }
    }
    while path.last == UInt8(ascii: "/"), path.count > 1 { path.removeLast() }
    guard !path.contains(0), inHome && path.isEmpty || path.first == UInt8(ascii: "/") else { return nil }
    return inHome ? .inHome(Array(path.drop { $0 == UInt8(ascii: "/") })) : .absolute(path)
  }
}
