/// Properties of SOURCE, the input of ``Profile/detect(_:)``.
public struct SourceTraits: OptionSet, Sendable, Hashable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// `System/Library/CoreServices` is a directory.
  public static let systemLibrary = SourceTraits(rawValue: 1 << 0)
  public static let applications = SourceTraits(rawValue: 1 << 1)
  public static let users = SourceTraits(rawValue: 1 << 2)
  public static let library = SourceTraits(rawValue: 1 << 3)
  public static let etc = SourceTraits(rawValue: 1 << 4)
  public static let usr = SourceTraits(rawValue: 1 << 5)
  public static let bin = SourceTraits(rawValue: 1 << 6)
  /// `var` is a directory.
  public static let varDirectory = SourceTraits(rawValue: 1 << 7)
  public static let tmp = SourceTraits(rawValue: 1 << 8)
  public static let documents = SourceTraits(rawValue: 1 << 9)
  public static let desktop = SourceTraits(rawValue: 1 << 10)
  public static let downloads = SourceTraits(rawValue: 1 << 11)
  /// `.config/user-dirs.dirs` is a file.
  public static let xdgUserDirs = SourceTraits(rawValue: 1 << 12)
  /// SOURCE contains a login shell's files: `.profile`, `.bashrc`, `.zshrc` or the like.
  public static let shellDotFiles = SourceTraits(rawValue: 1 << 13)
  /// SOURCE is a home in the user database, or is an entry of `Users` or `home`.
  public static let isSomeUsersHome = SourceTraits(rawValue: 1 << 14)
  /// SOURCE is an entry of `Mobile Documents` with a name like `com~apple~Pages`.
  public static let isCloudContainer = SourceTraits(rawValue: 1 << 15)
  /// `Data` contains `Documents`, `Library` and `tmp`, like a sandboxed application's container on a Mac.
  public static let sandboxData = SourceTraits(rawValue: 1 << 16)
}
