/// The reason why an entry is not listed.
public enum HiddenReason: UInt8, CaseIterable, Sendable {
  case dotFile
  case appleDouble
  case finderInvisible
  case dosHidden
  case hiddenList
  case configured
  case iconFile
  case windowsFile
  case unixDirectory
  case volumeRootName
  case volumes
  case homeLibrary
  case containerSupport
  case archiveMetadata

  /// The rule's name in `disabled-rules`; nil for a reason that cannot be disabled there.
  public var ruleName: String? {
    switch self {
    case .dotFile: "dot-files"
    case .appleDouble: "appledouble"
    case .finderInvisible: "finder-invisible"
    case .dosHidden: "dos-hidden"
    case .hiddenList: "hidden-lists"
    case .configured: nil
    case .iconFile: "icon-files"
    case .windowsFile: "windows-files"
    case .unixDirectory: "unix-directories"
    case .volumeRootName: "volume-root-names"
    case .volumes: "volumes"
    case .homeLibrary: "home-library"
    case .containerSupport: "container-support"
    case .archiveMetadata: "archive-metadata"
    }
  }

  /// The names of all rules that can be disabled, in the order of the manual page.
  static var ruleNames: [String] { allCases.compactMap(\.ruleName) }

  /// Parses the value of `-o disabled-rules=dot-files:home-library`.
  static func parse(option value: String) throws(OptionError) -> Set<HiddenReason> {
    var reasons: Set<HiddenReason> = []
    for word in value.split(separator: ":") {
      guard let reason = allCases.first(where: { $0.ruleName.map { $0 == word } ?? false }) else {
        throw OptionError(
          "disabled-rules=\(value): \"\(word)\" is no rule; use some of: \(ruleNames.joined(separator: ", "))"
        )
      }
      reasons.insert(reason)
    }
    return reasons
  }

  /// The reason as a sentence for users.
  public var explanation: String {
    switch self {
    case .dotFile: "Its name begins with a period."
    case .appleDouble: "It holds the Macintosh metadata of the file it is named after."
    case .finderInvisible: "Its Finder info marks it as invisible."
    case .dosHidden: "Its DOS attributes mark it as hidden."
    case .hiddenList: "The .hidden file beside it lists its name."
    case .configured: "The configuration hides it."
    case .iconFile: "It holds a custom icon: its name ends in a carriage return."
    case .windowsFile: "It belongs to the Windows desktop, which hides it too."
    case .unixDirectory: "It is a UNIX directory at the root of a volume."
    case .volumeRootName: "It is a file system or system support item at the root of a volume."
    case .volumes: "It is the directory that other volumes are mounted in."
    case .homeLibrary: "It is the Library of a home: support files that applications manage."
    case .containerSupport: "It is a part of the application's container that is not meant for users."
    case .archiveMetadata: "It holds the Macintosh metadata of what was unpacked from an archive."
    }
  }
}
