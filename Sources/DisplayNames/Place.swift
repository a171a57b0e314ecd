/// What a directory is to the rules that hold only in certain places. Decided by ``Profile/place(ofPath:)``.
public struct Place: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The root of a Macintosh volume.
  public static let macVolumeRoot = Place(rawValue: 1 << 0)
  /// The root of a UNIX system.
  public static let unixRoot = Place(rawValue: 1 << 1)
  /// The directory that holds the homes.
  public static let usersDirectory = Place(rawValue: 1 << 2)
  /// Somebody's home.
  public static let home = Place(rawValue: 1 << 3)
  /// The data container of a sandboxed application.
  public static let container = Place(rawValue: 1 << 4)
  /// The top of an application's iCloud container, of which only `Documents` is the user's.
  public static let cloudContainer = Place(rawValue: 1 << 5)

  /// Somewhere inside a package: nothing there is renamed, and packages within are plain directories.
  public static let insidePackage = Place(rawValue: 1 << 6)
  /// The `files` directory of a trash ("The FreeDesktop.org Trash specification"): what lies in it is known by the name
  /// that its `.trashinfo` file in the `info` directory beside it has.
  public static let trashFiles = Place(rawValue: 1 << 7)
}
