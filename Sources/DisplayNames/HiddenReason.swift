/// Why an entry is not listed.
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

  /// The reason as a sentence for people.
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
    }
  }
}
