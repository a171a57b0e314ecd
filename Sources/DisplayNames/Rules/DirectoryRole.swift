/// The role of a directory, for rules that apply only in certain directories. Determined by ``Profile/role(ofPath:)``.
public struct DirectoryRole: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8

  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The root of a Macintosh volume.
  public static let macVolumeRoot = DirectoryRole(rawValue: 1 << 0)
  /// The root of a UNIX system.
  public static let unixRoot = DirectoryRole(rawValue: 1 << 1)
  /// The directory that contains the users' homes.
  public static let usersDirectory = DirectoryRole(rawValue: 1 << 2)
  /// A user's home.
  public static let home = DirectoryRole(rawValue: 1 << 3)
  /// The data container of a sandboxed application.
  public static let container = DirectoryRole(rawValue: 1 << 4)
  /// The top of an application's iCloud container, where only `Documents` belongs to the user.
  public static let cloudContainer = DirectoryRole(rawValue: 1 << 5)

  /// A directory inside a package: no entry is renamed there, and inner packages are plain directories.
  public static let insidePackage = DirectoryRole(rawValue: 1 << 6)
  /// The `files` directory of a trash ("The FreeDesktop.org Trash specification"). Each of its entries is identified by the name
  /// of its `.trashinfo` file in the sibling directory `info`.
  public static let trashFiles = DirectoryRole(rawValue: 1 << 7)
}
